//! Where traces go that a container's annotation asked for: whoever writes annotations may not name a
//! file of the host.

use alloc::format;
use alloc::string::String;

use cache::Bound;
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags, mkdir, openat};
use rustix::io::Errno;
use sys::Context;

use crate::Error;

/// Root's.
const DIRECTORY: &str = "/run/dayfly-trace";
/// What it holds at most, the oldest traces making room: whoever writes annotations may not fill /run.
const BOUND: Bound = Bound { entries: 256, bytes: 16 << 20 };

/// Writes a file of that name, in the place of an earlier one.
///
/// # Errors
/// Those of the system calls.
pub(crate) fn write(name: &str, text: &[u8]) -> Result<(), Error> {
    let directory = directory();
    match mkdir(directory.as_str(), Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(sys::Error::new("mkdir", directory, errno).into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let spool =
        openat(CWD, directory.as_str(), flags, Mode::empty()).context("open", &directory)?;
    let object = || format!("{directory}/{name}");
    // A FIFO that was put there by a user in their own directory is not waited for.
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::TRUNC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = openat(&spool, name, flags, Mode::from_raw_mode(0o600))
        .context("create trace", object())?;
    sys::stdio::write_all(file, text).context("write trace", object())?;
    Ok(cache::trim(spool.as_fd(), BOUND).context("clear", &directory)?)
}

fn directory() -> String {
    let uid = rustix::process::geteuid();
    match uid.is_root() {
        true => DIRECTORY.into(),
        false => format!("/run/user/{}/dayfly-trace", uid.as_raw()),
    }
}
