//! `tier`: cgroups kept ready for containers; see [`::cgroup::tier`].

use crate::Error;
use crate::options::Format;
use crate::options::cgroup::Tier;
use crate::table::Table;
use ::cgroup::Host;
use ::cgroup::tier::{self, Size};
use serde_json::{Value, json};

/// Makes, shows or removes pools.
///
/// # Errors
/// What is no size; pools that are not there; failing system calls.
pub fn tier(command: &Tier) -> Result<(), Error> {
    match command {
        Tier::Create { sizes, count } => {
            let host = Host::detect()?;
            // All are read before any is made.
            for size in parsed(sizes)? {
                let made = tier::fill(&host, &size, *count as usize)?;
                println!("{}: {made} made", size.name());
            }
            Ok(())
        }
        Tier::Ls { format } => list(*format),
        Tier::Rm { sizes } => {
            let host = Host::detect()?;
            let sizes = match sizes.as_slice() {
                [] => tier::pools()?.into_iter().map(|pool| pool.size).collect(),
                sizes => parsed(sizes)?,
            };
            for size in sizes {
                let left = tier::drain(&host, &size)?;
                if left > 0 {
                    println!("{}: {left} in use go with their containers", size.name());
                }
            }
            Ok(())
        }
    }
}

fn parsed(sizes: &[String]) -> Result<Vec<Size>, Error> {
    Ok(sizes.iter().map(|size| Size::parse(size)).collect::<Result<_, _>>()?)
}

fn list(format: Format) -> Result<(), Error> {
    let pools = tier::pools()?;
    match format {
        Format::Json => {
            let row = |pool: &tier::Pool| {
                let (size, bytes) = (pool.size.name(), pool.size.bytes());
                json!({ "tier": size, "bytes": bytes, "free": pool.free, "taken": pool.taken })
            };
            println!("{}", pools.iter().map(row).collect::<Value>());
        }
        Format::Table => {
            let mut table = Table::new(&["tier", "free", "taken"]);
            for pool in pools {
                let (free, taken) = (pool.free.to_string(), pool.taken.to_string());
                table.row(vec![pool.size.name().to_owned(), free, taken]);
            }
            print!("{table}");
        }
    }
    Ok(())
}
