//! A child that works concurrently with its parent. It is a copy of the process, but has only the given descriptors.

use core::mem::ManuallyDrop;

use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use rustix::io::{DupFlags, Errno, dup2, dup3};

use crate::clone::{Child, Clone, clone3_bound};
use crate::exec::close_from;
use crate::signal::{SignalSet, set_mask};

/// Creates a child with its own copy of memory. The child runs `work` and exits with the status that `work` returns.
/// `streams` become descriptors 0 to 2; `others` follow from 3 on, close-on-exec, and are passed to `work`. All other
/// descriptors are closed, no signal is blocked, and the child is killed when the caller exits.
///
/// # Safety
/// The child's memory also contains the caller's values that own or borrow descriptors, but these descriptors are closed
/// in the child, and their numbers may be those of other files. So `work` must neither use nor drop such values.
///
/// # Errors
/// Those of clone3(2).
pub unsafe fn begin<const N: usize>(
    streams: [BorrowedFd<'_>; 3],
    others: [BorrowedFd<'_>; N],
    work: impl FnOnce([OwnedFd; N]) -> i32,
) -> Result<Child, Errno> {
    match clone3_bound()? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => {
            let _ = set_mask(SignalSet::EMPTY);
            crate::start::exit(match arrange(streams, others) {
                Ok(others) => work(others),
                Err(_) => 1,
            })
        }
    }
}

/// Moves the descriptors to their numbers, and closes all others.
fn arrange<const N: usize>(
    streams: [BorrowedFd<'_>; 3],
    others: [BorrowedFd<'_>; N],
) -> Result<[OwnedFd; N], Errno> {
    let count = RawFd::try_from(3 + N).map_err(|_| Errno::MFILE)?;
    // The descriptors first get numbers above all final ones, so that none overwrites another.
    let streams = lift(streams, count)?;
    let others = lift(others, count)?;
    for (number, from) in (0..).zip(streams) {
        // SAFETY: `from` is open; 0 to 2 have no owner.
        let (from, mut to) = unsafe {
            (BorrowedFd::borrow_raw(from), ManuallyDrop::new(OwnedFd::from_raw_fd(number)))
        };
        dup2(from, &mut to)?;
    }
    for (number, from) in (3..).zip(others) {
        // SAFETY: `from` is open; if a value in the copied memory owns the number, it is not used in the child.
        let (from, mut to) = unsafe {
            (BorrowedFd::borrow_raw(from), ManuallyDrop::new(OwnedFd::from_raw_fd(number)))
        };
        dup3(from, &mut to, DupFlags::CLOEXEC)?;
    }
    // SAFETY: `work` uses no other descriptors.
    unsafe { close_from(count.unsigned_abs()) }?;
    let mut numbers = others.map(|_| 0);
    numbers.iter_mut().zip(3..).for_each(|(place, number)| *place = number);
    // SAFETY: the descriptors have just been created, and the caller becomes their owner.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Duplicates descriptors to free numbers from `first` on.
fn lift<const N: usize>(fds: [BorrowedFd<'_>; N], first: RawFd) -> Result<[RawFd; N], Errno> {
    let mut lifted = [-1; N];
    for (to, fd) in lifted.iter_mut().zip(fds) {
        *to = rustix::io::fcntl_dupfd_cloexec(fd, first)?.into_raw_fd();
    }
    Ok(lifted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::{AsFd, AsRawFd};
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    fn status_of(child: &Child) -> Option<i32> {
        let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
        ended.unwrap().unwrap().exit_status()
    }

    #[test]
    fn has_what_it_is_given_and_nothing_else() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, 0.into()).unwrap();
        let streams = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let work = |[third]: [OwnedFd; 1]| {
            let stdout = crate::stdio::stdout();
            let written = rustix::io::write(stdout, b"1").and(rustix::io::write(&third, b"3"));
            // SAFETY: the descriptor is only queried.
            let fourth = unsafe { BorrowedFd::borrow_raw(4) };
            let is_open = rustix::io::fcntl_getfd(fourth).is_ok();
            if written.is_ok() && third.as_raw_fd() == 3 && !is_open { 7 } else { 2 }
        };
        // SAFETY: `work` uses only the descriptors that it is given, and takes no lock.
        let child = unsafe { begin(streams, [writer.as_fd()], work) };
        assert_eq!(status_of(&child.unwrap()), Some(7));
        drop(writer);
        let mut got = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut got), Ok(2));
        assert_eq!(&got[..2], b"13");
    }
}
