//! Time namespaces: offsets for the clocks since boot (time_namespaces(7), Linux 5.6).
//!
//! The parent, not init, makes or joins the namespace, because the offsets must be written before it contains a
//! process. Only a process that shares its memory with no other process can return to its own time namespace, so init
//! gets a copy of the memory.
//!
//! A caller without root may create a time namespace only in its container's user namespace. There, init creates it,
//! writes the offsets and enters it (`enter time namespace`). It does so before it becomes untraceable, because from
//! then on its files in /proc belong to root.

use alloc::format;
use alloc::string::ToString;
use core::str::from_utf8;

use init::clock::Refused;
use init::step::{Slot, TimeNamespace};
use init::{Slots, clock};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::clone::CloneFlags;
use sys::{Context, Error};

/// The parent's state while its children are created in another time namespace.
pub(crate) struct Elsewhere {
    own: OwnedFd,
}

impl Elsewhere {
    /// Selects the time namespace in which children are created. The offsets of a new namespace are written before a
    /// process enters it, as the kernel requires.
    pub(crate) fn enter(time: TimeNamespace<'_>, slots: &Slots) -> Result<Self, Error> {
        let proc = proc(slots)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let own = openat(proc, c"self/ns/time", flags, Mode::empty())
            .context("open", "/proc/self/ns/time (time namespaces aren't enabled in the kernel)")?;
        let elsewhere = Self { own };
        match enter(time, slots) {
            Ok(()) => Ok(elsewhere),
            Err(error) => elsewhere.leave().and(Err(error)),
        }
    }

    /// Returns to this process's own time namespace.
    pub(crate) fn leave(self) -> Result<(), Error> {
        sys::ns::join(self.own.as_fd(), CloneFlags::NEWTIME).context("setns", "own time namespace")
    }
}

/// Selects the time namespace for this process's children.
fn enter(time: TimeNamespace<'_>, slots: &Slots) -> Result<(), Error> {
    clock::enter(time, slots).map_err(|refused| match (refused, time) {
        (Refused::Proc(errno), _) => Error::new("open", "/proc", errno),
        (Refused::Unshare(errno), _) => Error::new("unshare", "time namespace", errno),
        (Refused::Offsets(errno), TimeNamespace::New(offsets)) => {
            let offsets = offsets.trim_end().replace('\n', ", ");
            Error::new("write", format!("/proc/self/timens_offsets ({offsets})"), errno)
        }
        (Refused::Offsets(errno) | Refused::Join(errno), _) => {
            Error::new("setns", "time namespace", errno)
        }
    })
}

/// Returns the number of nanoseconds by which a process's monotonic clock is ahead of this process's clock, for the
/// trace.
pub(crate) fn ahead(pid: Pid, slots: &Slots) -> Result<i64, Error> {
    let offset = |of: &str| {
        let path = format!("{of}/timens_offsets");
        let text = sys::fs::read_at(proc(slots)?, path.as_str()).context("read", &path)?;
        Ok(monotonic(from_utf8(&text).unwrap_or_default()).unwrap_or(0))
    };
    Ok(offset(&pid.as_raw_nonzero().to_string())?.wrapping_sub(offset("self")?))
}

/// Returns the offset in nanoseconds from a line such as "monotonic  -86400  0".
fn monotonic(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(|number| number.parse::<i64>().ok());
    numbers.next()??.checked_mul(1_000_000_000)?.checked_add(numbers.next()??)
}

fn proc<'a>(slots: &'a Slots<'_>) -> Result<BorrowedFd<'a>, Error> {
    slots.get(Slot::PROC).ok_or(Errno::BADF).context("open", "/proc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read() {
        let text = "monotonic           7         5\nboottime            0         0\n";
        assert_eq!(monotonic(text), Some(7_000_000_005));
        assert_eq!(monotonic("monotonic  -2  500000000\n"), Some(-1_500_000_000));
        assert_eq!(monotonic("boottime 1 1\n"), None);
        assert_eq!(monotonic("monotonic 99999999999999999 0"), None);
    }
}
