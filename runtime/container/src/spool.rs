//! The directory for traces requested by annotations. Such traces have a fixed directory because the author of an
//! annotation may not choose a file of the host.

use alloc::format;
use alloc::string::String;

use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags, mkdir, openat};
use rustix::io::Errno;
use sys::Context;

use crate::cache::directory::open_directory;
use crate::cache::{self, Bound};
use crate::{Error, Unless as _};

/// The spool of root. Other users have one in /run/user.
const DIRECTORY: &str = "/run/dayfly-trace";
/// The maximum number and size of traces, so that authors of annotations cannot fill /run. The oldest traces are
/// removed first.
const BOUND: Bound = Bound { entries: 256, left: 256, bytes: Some(16 << 20) };

/// Writes the file `name` to the spool, replacing an earlier one.
///
/// # Errors
/// Those of the system calls.
pub(crate) fn write(name: &str, text: &[u8]) -> Result<(), Error> {
    let directory = directory();
    let made = mkdir(directory.as_str(), Mode::from_raw_mode(0o700)).unless(Errno::EXIST);
    made.context("mkdir", &directory)?;
    let spool = open_directory(CWD, &directory).context("open", &directory)?;
    let object = || format!("{directory}/{name}");
    // O_NONBLOCK: a FIFO that a user created in their own directory must not block the command.
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
