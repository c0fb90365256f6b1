//! Time namespaces: the offsets of CLOCK_MONOTONIC and CLOCK_BOOTTIME (time_namespaces(7), Linux 5.6).

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sys::clone::CloneFlags;

use crate::failure::{Failure, Op};
use crate::slots::Slots;
use crate::step::{Slot, TimeNamespace};

/// The reason why a time namespace cannot be created or joined.
#[derive(Debug)]
pub enum Refused {
    /// There is no procfs.
    Proc(Errno),
    /// A new time namespace cannot be created.
    Unshare(Errno),
    /// The new namespace's offsets cannot be written.
    Offsets(Errno),
    /// The namespace cannot be joined.
    Join(Errno),
}

impl Refused {
    /// Returns the errno.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Proc(errno) | Self::Unshare(errno) | Self::Offsets(errno) | Self::Join(errno) => {
                *errno
            }
        }
    }
}

/// Selects the time namespace in which this process's future children are created. The offsets of a new namespace are
/// written before a process enters it, as the kernel requires.
///
/// # Errors
/// See [`Refused`].
pub fn enter(time: TimeNamespace<'_>, slots: &Slots) -> Result<(), Refused> {
    match time {
        TimeNamespace::New(offsets) => {
            let proc = slots.get(Slot::PROC).ok_or(Refused::Proc(Errno::BADF))?;
            make(offsets, proc)
        }
        TimeNamespace::Joined(slot) => join(slot, slots).map_err(Refused::Join),
    }
}

/// Creates a time namespace with these offsets and enters it; called by init. For this, setns(2) requires that init
/// shares its memory with no other process and has CAP_SYS_ADMIN in its user namespace.
pub(crate) fn make_and_enter(offsets: &str, proc: BorrowedFd<'_>) -> Result<(), Failure> {
    make(offsets, proc).map_err(|refused| match refused {
        Refused::Offsets(errno) => Failure::new("write timens_offsets", errno),
        refused => Failure::new("unshare", refused.errno()),
    })?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let made = openat(proc, c"self/ns/time_for_children", flags, Mode::empty());
    sys::ns::join(made.op("openat")?.as_fd(), CloneFlags::NEWTIME).op("setns")
}

fn make(offsets: &str, proc: BorrowedFd<'_>) -> Result<(), Refused> {
    sys::ns::unshare(CloneFlags::NEWTIME).map_err(Refused::Unshare)?;
    if offsets.is_empty() {
        return Ok(());
    }
    sys::fs::write_at(proc, c"self/timens_offsets", offsets.as_bytes()).map_err(Refused::Offsets)
}

fn join(slot: Slot, slots: &Slots) -> Result<(), Errno> {
    let target = slots.get(slot).ok_or(Errno::BADF)?;
    match slot {
        Slot::CONTAINER => sys::ns::join_process(target, CloneFlags::NEWTIME),
        _ => sys::ns::join(target, CloneFlags::NEWTIME),
    }
}
