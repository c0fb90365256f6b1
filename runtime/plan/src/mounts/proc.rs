//! Checks of mounts at /proc and below it.

use alloc::format;

use sys::defence::{Defence, is_off};

use crate::Error;

/// Files below /proc that may be bind-mounted: those that lxcfs and engines replace. Other mounts there could redirect
/// the runtime's own writes (CVE-2019-16884, CVE-2019-19921).
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

/// Refuses a new file system at or below /proc, except procfs, and except on the paths of [`ALLOWED_IN_PROC`].
pub(super) fn check_filesystem(kind: &str, destination: &str) -> Result<(), Error> {
    if kind == "proc" {
        return Ok(());
    }
    if destination == "/proc" && !is_off(Defence::ProcCovers) {
        return Err(Error::config(format!("mount {destination}: only procfs may be mounted here")));
    }
    check_inside(destination)
}

/// Refuses a bind mount at or below /proc, except the host's own /proc and [`ALLOWED_IN_PROC`].
pub(super) fn check_bind(source: &str, destination: &str) -> Result<(), Error> {
    if destination == "/proc" && source != "/proc" && !is_off(Defence::ProcCovers) {
        return Err(Error::config(format!(
            "bind mount {destination}: only the host's /proc may be bound here, not {source}"
        )));
    }
    check_inside(destination)
}

fn check_inside(destination: &str) -> Result<(), Error> {
    if !destination.starts_with("/proc/") {
        return Ok(());
    }
    if ALLOWED_IN_PROC.contains(&destination) || is_off(Defence::ProcCovers) {
        return Ok(());
    }
    Err(Error::config(format!("{destination:?} cannot be mounted because it is inside /proc")))
}
