//! What may be mounted at /proc and below it.

use alloc::format;

use sys::defence::{Defence, is_off};

use crate::Error;

/// What may be bound below /proc: files that lxcfs and engines replace. Anything else there could
/// redirect the runtime's own writes (CVE-2019-16884, CVE-2019-19921).
const ALLOWED_IN_PROC: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/slabinfo",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/crypto/fips_enabled",
];

pub(super) fn check_inside_proc(destination: &str) -> Result<(), Error> {
    if ALLOWED_IN_PROC.contains(&destination) || is_off(Defence::ProcCovers) {
        return Ok(());
    }
    Err(Error::config(format!("{destination:?} cannot be mounted because it is inside /proc")))
}
