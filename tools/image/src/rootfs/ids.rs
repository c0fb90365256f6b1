//! `dayfly rootfs ids`

use super::options::List;
use crate::error::Result;
use report::{Format, Table, say, sayln};
use rootfs::ids::RANGE;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lists the leased id ranges.
pub(super) fn list(options: &List) -> Result<()> {
    let leases = options.places.leases()?.list()?;
    if options.format == Format::Json {
        let all = leases.iter().map(|lease| {
            json!({
                "first": lease.first, "count": RANGE, "owner": lease.owner.directory,
                "since": lease.owner.since / 1_000_000_000,
            })
        });
        sayln!("{:#}", Value::Array(all.collect()));
        return Ok(());
    }
    let mut table = Table::new(&["RANGE", "SINCE", "OWNER"]).left(&[0, 1, 2]);
    for lease in leases {
        let last = u64::from(lease.first) + u64::from(RANGE) - 1;
        let range = format!("{}-{last}", lease.first);
        let began = UNIX_EPOCH + Duration::from_nanos(lease.owner.since);
        let age = SystemTime::now().duration_since(began).unwrap_or_default();
        table.row(vec![range, ago(age), lease.owner.directory]);
    }
    say!("{table}");
    Ok(())
}

/// Formats an age.
fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86400),
    }
}
