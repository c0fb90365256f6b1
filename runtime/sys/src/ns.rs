//! setns(2) and unshare(2).

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use crate::clone::CloneFlags;

/// Joins the namespace that `fd` refers to. `kind` is one flag, the type that the namespace must have.
///
/// # Errors
/// Those of setns(2): EINVAL if the namespace is of another type.
pub fn join(fd: BorrowedFd<'_>, kind: CloneFlags) -> Result<(), Errno> {
    let link = match kind {
        CloneFlags::NEWNS => LinkNameSpaceType::Mount,
        CloneFlags::NEWCGROUP => LinkNameSpaceType::ControlGroup,
        CloneFlags::NEWUTS => LinkNameSpaceType::HostNameAndNISDomainName,
        CloneFlags::NEWIPC => LinkNameSpaceType::InterProcessCommunication,
        CloneFlags::NEWUSER => LinkNameSpaceType::User,
        CloneFlags::NEWPID => LinkNameSpaceType::ProcessID,
        CloneFlags::NEWNET => LinkNameSpaceType::Network,
        CloneFlags::NEWTIME => LinkNameSpaceType::Time,
        _ => return Err(Errno::INVAL),
    };
    rustix::thread::move_into_link_name_space(fd, Some(link))
}

/// Joins namespaces of the process that `pidfd` refers to: those whose types are in `kinds`. This takes one system call
/// (Linux 5.8).
///
/// # Errors
/// Those of setns(2); on failure no namespace is joined.
pub fn join_process(pidfd: BorrowedFd<'_>, kinds: CloneFlags) -> Result<(), Errno> {
    let kinds = ThreadNameSpaceType::from_bits_retain(crate::raw::halves(kinds.bits())[0]);
    rustix::thread::move_into_thread_name_spaces(pidfd, kinds)
}

/// Moves the caller to new namespaces of the types `kinds`.
///
/// # Errors
/// Those of unshare(2).
pub fn unshare(kinds: CloneFlags) -> Result<(), Errno> {
    // SAFETY: the flags only select namespaces. CLONE_FILES, which would unshare the descriptor table from other
    // threads, is not among CloneFlags.
    unsafe {
        rustix::thread::unshare_unsafe(UnshareFlags::from_bits_retain(
            crate::raw::halves(kinds.bits())[0],
        ))
    }
}
