//! Checks the descriptors that a new process inherits, and announces the process by pid file and pidfd socket.

use alloc::format;

use rustix::fd::AsFd;
use sys::Context;
use sys::clone::Child;

use crate::{Error, Trace, pid_file};

/// Announces the new process by pid file and by pidfd socket, as the caller requested. `kind`, runc's name for this
/// type of process, is sent along with the pidfd.
pub(crate) fn announce(
    child: &Child,
    kind: &str,
    pid_file: Option<&str>,
    pidfd_socket: Option<&str>,
    trace: &Trace,
) -> Result<(), sys::Error> {
    if let Some(path) = pid_file {
        trace.point("write pid file", path)?;
        pid_file::write(path, child.pid)?;
    }
    if let Some(path) = pidfd_socket {
        trace.point("send pidfd", path)?;
        let sent = sys::fdpass::dial(path)
            .and_then(|socket| sys::fdpass::send(socket, kind.as_bytes(), child.pidfd.as_fd()));
        sent.context("send pidfd", path)?;
    }
    Ok(())
}

/// Checks that the `count` descriptors from 3 on, which the process will inherit, are open, as runc does.
pub(crate) fn check_preserved(count: u32) -> Result<(), Error> {
    for fd in (3..).take(count as usize) {
        let path = format!("/proc/self/fd/{fd}");
        if rustix::fs::access(path.as_str(), rustix::fs::Access::EXISTS).is_err() {
            return Err(Error::Text(format!(
                "unable to stat preserved-fd {} (of {count}): file descriptor {fd} is not open",
                fd - 2
            )));
        }
    }
    Ok(())
}
