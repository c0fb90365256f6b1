//! Starts a program of the host in a child process, which inherits the given descriptors only.

use alloc_crate::vec::Vec;
use core::ffi::{CStr, c_char};
use core::mem::ManuallyDrop;
use core::ptr;

use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{Errno, dup2, fcntl_dupfd_cloexec};

use crate::clone::{Child, Clone, CloneFlags, clone3};
use crate::signal::{SignalSet, reset_dispositions, set_mask};
use crate::stdio::write_all;

/// A program to start.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The file to execute.
    pub path: &'a CStr,
    /// The arguments, beginning with the program's name.
    pub argv: &'a [&'a CStr],
    /// The complete environment.
    pub envp: &'a [&'a CStr],
    /// The program's descriptors, in order from number 0. The program gets no other descriptors.
    pub fds: &'a [BorrowedFd<'a>],
    /// Whether the program starts in its own process group, which does not receive signals that the terminal sends to
    /// the caller's group.
    pub own_group: bool,
    /// The signals that are blocked in the program.
    pub blocked: SignalSet,
    /// The directory of the cgroup v2 in which the child is created (CLONE_INTO_CGROUP, Linux 5.7).
    pub into: Option<BorrowedFd<'a>>,
    /// Files of other cgroups to which the child writes `0` before it executes the program.
    pub entrances: &'a [OwnedFd],
    /// A descriptor to which the child writes the errno, as four bytes in native order, if the program cannot be
    /// executed. Exec closes it.
    pub trouble: BorrowedFd<'a>,
}

/// Starts `program` in a child process. The child's exit sends SIGCHLD. In the child, no signal is ignored, and only
/// the signals of `blocked` are blocked.
///
/// Does not wait for exec; see [`Program::trouble`].
///
/// # Errors
/// Those of clone3(2); EMFILE.
pub fn spawn(program: &Program<'_>) -> Result<Child, Errno> {
    // The copies get numbers above the final numbers, so that no copy is overwritten before it is moved.
    let above = RawFd::try_from(program.fds.len()).map_err(|_| Errno::MFILE)?;
    let copies = program.fds.iter().map(|fd| fcntl_dupfd_cloexec(fd, above));
    let copies: Vec<OwnedFd> = copies.collect::<Result<_, _>>()?;
    let trouble = fcntl_dupfd_cloexec(program.trouble, above)?;
    let (argv, envp) = (pointers(program.argv), pointers(program.envp));
    match clone3(CloneFlags::empty(), program.into)? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => {
            if program.own_group {
                let _ = rustix::process::setpgid(None, None);
            }
            let mut entrances = program.entrances.iter();
            let errno = match entrances.try_for_each(|fd| write_all(fd.as_fd(), b"0")) {
                Ok(()) => become_program(program, &argv, &envp, &copies),
                Err(errno) => errno,
            };
            let _ = write_all(trouble.as_fd(), &errno.raw_os_error().to_ne_bytes());
            crate::start::exit(127)
        }
    }
}

/// Returns the NULL-terminated array of `strings` for execve(2).
fn pointers(strings: &[&CStr]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Executes the program, in the child. Returns only on failure.
fn become_program(
    program: &Program<'_>,
    argv: &[*const c_char],
    envp: &[*const c_char],
    fds: &[OwnedFd],
) -> Errno {
    reset_dispositions();
    let _ = set_mask(program.blocked);
    let mut number = 0;
    for fd in fds {
        // Must not be dropped: the drop would close the descriptor, which the program inherits.
        let mut place = ManuallyDrop::new(
            // SAFETY: the number's owner in this process never uses it again.
            unsafe { OwnedFd::from_raw_fd(number) },
        );
        if let Err(errno) = dup2(fd, &mut place) {
            return errno;
        }
        number += 1;
    }
    if let Err(errno) = crate::exec::cloexec_from(number.unsigned_abs()) {
        return errno;
    }
    // SAFETY: NULL-terminated arrays of strings that the caller of `spawn` holds.
    let ret = unsafe {
        crate::raw::call(
            crate::raw::nr::EXECVE,
            crate::raw::args![program.path.as_ptr(), argv.as_ptr(), envp.as_ptr()],
        )
    };
    match ret {
        Err(errno) => errno,
        Ok(_) => Errno::NOEXEC,
    }
}
