//! A child process that gets a descriptor or a number for its parent. It can enter other namespaces or another root
//! directory, so that the parent need not do so itself.

#[cfg(feature = "alloc")]
use {
    crate::signal::{SignalSet, set_mask},
    alloc_crate::vec::Vec,
    rustix::fd::{AsRawFd, RawFd},
    rustix::fs::{CWD, Mode, OFlags, openat},
    rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::clone::{Child, Clone, CloneFlags, clone3};
use crate::fdpass;

/// Runs `fetch` in a child, and returns the descriptor that `fetch` returned there. The child may change its root
/// directory and namespaces; the child has exited when this function returns.
///
/// In a process with several threads, `fetch` must not allocate (see [`clone3`]), or this function may wait for ever.
///
/// # Errors
/// Those of `fetch`; ECHILD if the child was killed; those of socketpair(2) and clone3(2).
pub fn fetch(fetch: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let child = match clone3(CloneFlags::empty(), None)? {
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
    reap(&child);
    match answer? {
        (_, Some(fd)) => Ok(fd),
        (4, None) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
        _ => Err(Errno::CHILD),
    }
}

/// Runs `work` in a child that may outlive this process, with its result as the exit status. The child starts in
/// `cgroup` if one is given (CLONE_INTO_CGROUP, Linux 5.7), blocks all signals, and has no other descriptors than `fds`
/// and /dev/null as its standard streams. `work` receives `data` and `fds`, and captures nothing: it cannot use a
/// descriptor of the caller that is closed in the child.
///
/// # Errors
/// Those of openat(2) and clone3(2).
#[cfg(feature = "alloc")]
pub fn leave<W: FnOnce(&[u8], Vec<OwnedFd>) -> i32>(
    cgroup: Option<BorrowedFd<'_>>,
    fds: Vec<OwnedFd>,
    data: &[u8],
    work: W,
) -> Result<Child, Errno> {
    const { assert!(size_of::<W>() == 0, "`work` captures something") };
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    match clone3(CloneFlags::empty(), cgroup)? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => {
            let _ = set_mask(SignalSet::ALL);
            let kept: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
            let streams = [dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null)];
            // SAFETY: the child exits without dropping any value of its parent, and `work` has only those of `fds`.
            let closed = unsafe { crate::exec::close_all_but(3, &kept) };
            let is_ready = streams.into_iter().chain([closed]).all(|result| result.is_ok());
            crate::start::exit(if is_ready { work(data, fds) } else { 1 })
        }
    }
}

/// Runs `work` in a child, and returns the result of `work`. The child starts in `cgroup` if one is given
/// (CLONE_INTO_CGROUP, Linux 5.7). The child may change its namespaces, and has exited when this function returns. As
/// with [`fetch`], `work` must not allocate if the process has several threads, or this function may wait for ever.
///
/// # Errors
/// Those of `work`; ECHILD if the child was killed; those of pipe2(2) and clone3(2).
pub fn ask(
    cgroup: Option<BorrowedFd<'_>>,
    work: impl FnOnce() -> Result<u32, Errno>,
) -> Result<u32, Errno> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let child = match clone3(CloneFlags::empty(), cgroup)? {
        Clone::Child => {
            drop(ours);
            let (errno, number) = match work() {
                Ok(number) => (0, number),
                Err(errno) => (errno.raw_os_error(), 0),
            };
            let answer = (u64::from(number) << 32) | u64::from(errno.unsigned_abs());
            let _ = write(&theirs, &answer.to_ne_bytes());
            crate::start::exit(0)
        }
        Clone::Parent(child) => child,
    };
    drop(theirs);
    let mut answer = [0; 8];
    let read = loop {
        match rustix::io::read(&ours, &mut answer) {
            Err(Errno::INTR) => {}
            read => break read,
        }
    };
    reap(&child);
    match (read?, crate::raw::halves(u64::from_ne_bytes(answer))) {
        (8, [0, number]) => Ok(number),
        (8, [errno, _]) => Err(Errno::from_raw_os_error(errno.cast_signed())),
        _ => Err(Errno::CHILD),
    }
}

/// Waits for the child to exit, and reaps it. If the caller ignores SIGCHLD, the kernel reaps the child, and waiting
/// fails.
fn reap(child: &Child) {
    let wait = || waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    while matches!(wait(), Err(Errno::INTR)) {}
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
    fn a_number_comes_back() {
        assert_eq!(ask(None, || Ok(u32::MAX)), Ok(u32::MAX));
        assert_eq!(ask(None, || Err(Errno::XDEV)), Err(Errno::XDEV));
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
