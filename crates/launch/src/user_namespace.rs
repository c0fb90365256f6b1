//! A user namespace for nothing but its mappings, which id-mapped mounts take (mount_setattr(2)).

use alloc::format;

use plan::step::IdMaps;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, read};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sys::Context;
use sys::clone::{Child, Clone, CloneFlags, clone3};

use crate::channel;
use crate::network::ALL;

/// What the calls are about, for errors.
const OBJECT: &str = "user namespace of a mount";

/// Makes a user namespace with these mappings. A process has to live in it for as long as they are
/// written; it is gone when this returns, and ends by itself if this process is killed.
///
/// # Errors
/// Those of clone3(2) and user_namespaces(7): EINVAL if ranges overlap.
pub(crate) fn make(proc: BorrowedFd<'_>, maps: &IdMaps) -> Result<OwnedFd, sys::Error> {
    let (ours, theirs) = channel::pair().context("socketpair", OBJECT)?;
    // SAFETY: the child works on its own copy of memory, waits and ends.
    let member = match unsafe { clone3(CloneFlags::NEWUSER | CloneFlags::SILENT, None) } {
        Ok(Clone::Parent(child)) => child,
        Ok(Clone::Child) => {
            drop(ours);
            while matches!(read(&theirs, &mut [0]), Err(Errno::INTR)) {}
            sys::start::exit(0)
        }
        Err(errno) => return Err(sys::Error::new("clone3", OBJECT, errno)),
    };
    drop(theirs);
    let made = map(proc, &member, maps);
    drop(ours);
    let ended = || waitid(WaitId::PidFd(member.pidfd.as_fd()), WaitIdOptions::EXITED | ALL);
    while matches!(ended(), Err(Errno::INTR)) {}
    made
}

/// Writes the mappings of the namespace that `member` is in, and opens it.
fn map(proc: BorrowedFd<'_>, member: &Child, maps: &IdMaps) -> Result<OwnedFd, sys::Error> {
    let pid = member.pid.as_raw_nonzero();
    for (name, text) in [("uid_map", &maps.uid_map), ("gid_map", &maps.gid_map)] {
        let path = format!("{pid}/{name}");
        sys::fs::write_at(proc, path.as_str(), text.as_bytes())
            .context("write", format!("{name} of a mount ({})", text.trim_end()))?;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(proc, format!("{pid}/ns/user").as_str(), flags, Mode::empty()).context("open", OBJECT)
}
