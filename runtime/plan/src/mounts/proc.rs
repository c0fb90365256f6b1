//! Checks of mounts at /proc and below it. Init checks the destinations that a link of the image leads to.

use alloc::format;
use core::ffi::CStr;

use sys::defence::{Defence, is_off};

use crate::Error;
use crate::step::ALLOWED_IN_PROC;

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
    let allowed = |path: &&CStr| path.to_bytes() == destination.trim_start_matches('/').as_bytes();
    if ALLOWED_IN_PROC.iter().any(allowed) || is_off(Defence::ProcCovers) {
        return Ok(());
    }
    Err(Error::config(format!("{destination:?} cannot be mounted because it is inside /proc")))
}
