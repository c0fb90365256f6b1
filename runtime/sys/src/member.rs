//! The *member*: the process that is in a user namespace while the mappings of that namespace are written. The member
//! shares its parent's memory, so it must not allocate; this file is compiled without the feature `alloc`, too.

use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{Errno, read};

/// The two ends of a pipe: the member exits when the parent's end is closed.
pub struct Ends {
    /// The end that the parent keeps open as long as the member is needed.
    pub parent: RawFd,
    /// The end that the member reads.
    pub member: RawFd,
}

/// Waits for end of file on the pipe, then exits. Runs in the member.
pub extern "C" fn stay(ends: &Ends) -> ! {
    // SAFETY: both descriptors are open in this process, which has its own descriptor table.
    let end = unsafe {
        drop(OwnedFd::from_raw_fd(ends.parent));
        BorrowedFd::borrow_raw(ends.member)
    };
    while matches!(read(end, &mut [0]), Err(Errno::INTR)) {}
    crate::start::exit(0)
}
