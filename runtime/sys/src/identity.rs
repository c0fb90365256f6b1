//! The identity of a process, which distinguishes the process from a later one with the same pid.

use core::str::FromStr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{fstat, fstatfs};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// PID_FS_MAGIC, linux/magic.h
const PID_FS_MAGIC: i64 = 0x5049_4446;

/// A number that distinguishes a process from all others until the next boot: the inode of its pidfd (Linux 6.9), or on
/// older kernels its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(pub u64);

impl Identity {
    /// Returns the identity of the process `pid`, to which `pidfd` refers.
    ///
    /// # Errors
    /// Those of fstat(2); those of reading /proc.
    pub fn of(pid: Pid, pidfd: impl AsFd) -> Result<Self, Errno> {
        if fstatfs(pidfd.as_fd())?.f_type == PID_FS_MAGIC {
            return Ok(Self(fstat(pidfd)?.st_ino));
        }
        // The start time in clock ticks since boot.
        stat_field(pid, 22).map(Self)
    }
}

/// Reads a field of /proc/PID/stat (proc_pid_stat(5)), from the third on.
///
/// # Errors
/// Those of reading the file; EINVAL if there is no such field.
pub fn stat_field<T: FromStr>(pid: Pid, number: usize) -> Result<T, Errno> {
    let path = alloc_crate::format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = crate::fs::read_text(path.as_str())?;
    // The second field is the command in parentheses, which may contain anything.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = rest.split_whitespace().nth(number - 3);
    field.and_then(|field| field.parse().ok()).ok_or(Errno::INVAL)
}

/// Opens the process `pid` if it has this identity and has not exited; otherwise returns `None`.
///
/// # Errors
/// If the process cannot be opened for another reason, for example because this process may not have more open files.
/// Then nothing is known about the process.
pub fn open_alive(pid: Pid, identity: Identity) -> Result<Option<OwnedFd>, Errno> {
    let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
        // EINVAL: another process has a thread with this id.
        Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
        result => result?,
    };
    let is_same = match Identity::of(pid, &pidfd) {
        Err(Errno::SRCH | Errno::NOENT) => false,
        result => result? == identity,
    };
    Ok((is_same && !has_exited(&pidfd)).then_some(pidfd))
}

/// Returns whether the process behind a pidfd has exited. A zombie counts as exited.
pub fn has_exited(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}
