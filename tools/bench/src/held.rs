//! Measures memory, threads and descriptors of processes.

use std::fs;
use std::path::Path;

/// The resources of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Held {
    /// Private memory that has been modified (Private_Dirty), in KiB.
    pub(crate) private_kib: f64,
    /// Resident memory in KiB, where a shared page counts in proportion to the number of its users
    /// (PSS).
    pub(crate) pss_kib: f64,
    /// The number of threads.
    pub(crate) threads: f64,
    /// The number of open descriptors.
    pub(crate) descriptors: f64,
}

/// Returns the sums over the processes `pids`. A process that no longer exists counts as 0.
pub(crate) fn held(pids: &[i32]) -> Held {
    let mut sum = Held::default();
    for pid in pids {
        let place = Path::new("/proc").join(pid.to_string());
        let rollup = fs::read_to_string(place.join("smaps_rollup")).unwrap_or_default();
        let status = fs::read_to_string(place.join("status")).unwrap_or_default();
        sum.private_kib += field(&rollup, "Private_Dirty:");
        sum.pss_kib += field(&rollup, "Pss:");
        sum.threads += field(&status, "Threads:");
        sum.descriptors += fs::read_dir(place.join("fd")).map_or(0, Iterator::count) as f64;
    }
    sum
}

/// Returns the number that follows a field's name.
fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_something() {
        let one = held(&[std::process::id().cast_signed()]);
        assert!(one.private_kib > 0.0 && one.pss_kib > one.private_kib / 2.0, "{one:?}");
        assert!(one.threads >= 1.0 && one.descriptors >= 3.0, "{one:?}");
        assert_eq!(held(&[i32::MAX]), Held::default());
    }
}
