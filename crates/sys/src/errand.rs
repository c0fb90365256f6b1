//! A child process that fetches one descriptor for its parent, from where the parent does not want to
//! go itself.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::clone::{Clone, CloneFlags, clone3};
use crate::fdpass;

/// Runs `fetch` in a child and returns the descriptor it got there. The child is gone by then,
/// whatever it did to its own root directory and namespaces.
///
/// `fetch` must not allocate if the process has several threads, as tests have: one of them may hold
/// the allocator's lock.
///
/// # Errors
/// Those of `fetch`; ECHILD if the child was killed; those of socketpair(2) and clone3(2).
pub fn fetch(fetch: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the child only runs `fetch`, on its own copy of memory, and ends.
    let child = match unsafe { clone3(CloneFlags::empty(), None) }? {
        Clone::Child => {
            drop(ours);
            let _ = match fetch() {
                Ok(fd) => fdpass::send(&theirs, &[0; 4], fd.as_fd()),
                Err(errno) => write(&theirs, &errno.raw_os_error().to_ne_bytes()).map(drop),
            };
            crate::start::exit(0)
        }
        Clone::Parent(child) => child,
    };
    drop(theirs);
    let mut errno = [0; 4];
    let answer = fdpass::receive(&ours, &mut errno);
    // Nobody to wait for if the caller ignores SIGCHLD.
    let wait = || waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    while matches!(wait(), Err(Errno::INTR)) {}
    match answer? {
        (_, Some(fd)) => Ok(fd),
        (4, None) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
        _ => Err(Errno::CHILD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    #[test]
    fn a_descriptor_comes_back_and_the_directory_stays() {
        let before = std::env::current_dir().unwrap();
        let fetched = fetch(|| {
            rustix::process::chdir(c"/dev")?;
            openat(CWD, c"null", OFlags::RDONLY, Mode::empty())
        });
        assert_eq!(rustix::io::read(fetched.unwrap(), &mut [0]), Ok(0));
        assert_eq!(std::env::current_dir().unwrap(), before);
    }

    #[test]
    fn errors_come_back() {
        assert_eq!(fetch(|| Err(Errno::XDEV)).unwrap_err(), Errno::XDEV);
        let killed = fetch(|| {
            crate::signal::send_to(rustix::process::getpid(), 9)?;
            Err(Errno::XDEV)
        });
        assert_eq!(killed.unwrap_err(), Errno::CHILD);
    }
}
