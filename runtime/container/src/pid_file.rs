//! Pid files, written atomically.

use alloc::format;
use rustix::fs::{CWD, Mode, OFlags, openat, rename, unlink};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::Context;

/// Writes the pid to a temporary file and renames it, so that a reader never sees half a number.
pub(crate) fn write(path: &str, pid: Pid) -> Result<(), sys::Error> {
    let (directory, name) = match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name),
        None => (Default::default(), path),
    };
    let temporary = format!("{directory}.{name}");
    let written = write_beside(&temporary, pid)
        .and_then(|()| rename(temporary.as_str(), path).context("rename pid file", path));
    if written.is_err() {
        remove(&temporary);
    }
    written
}

fn write_beside(temporary: &str, pid: Pid) -> Result<(), sys::Error> {
    // A link created by another user would redirect the pid into another file.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let create = || openat(CWD, temporary, flags, Mode::from_raw_mode(0o666));
    let file = match create() {
        // A leftover of a killed command.
        Err(Errno::EXIST) => {
            remove(temporary);
            create()
        }
        result => result,
    }
    .context("create pid file", temporary)?;
    let text = format!("{}", pid.as_raw_nonzero());
    sys::stdio::write_all(file, text.as_bytes()).context("write pid file", temporary)
}

/// Removes the pid file of a failed launch.
pub(crate) fn remove(path: &str) {
    let _ = unlink(path);
}
