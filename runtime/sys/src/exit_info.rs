//! The exit status of a process that is not a child: of a zombie from /proc, of one that another process has reaped from
//! its pidfd (PIDFD_GET_INFO, Linux 6.15).

use alloc_crate::format;

use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{CWD, readlinkat};
use rustix::io::Errno;
use rustix::process::Pid;

/// `struct pidfd_info` in its first version (include/uapi/linux/pidfd.h).
#[repr(C)]
#[derive(Default)]
struct Info {
    /// The fields that the caller asks for; on return, those that the kernel has filled in.
    mask: u64,
    cgroup: u64,
    /// pid, tgid, ppid, and the real, effective, saved and file system uid and gid.
    ids: [u32; 11],
    /// The status in the format of wait(2).
    exit_code: i32,
}

/// PIDFD_GET_INFO: `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: usize = 3 << 30 | size_of::<Info>() << 16 | 0xff << 8 | 11;
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// Returns the status, in the format of wait(2), of a process that has exited and was reaped by its parent
/// (PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux 6.15).
///
/// # Errors
/// EAGAIN if the process has not been reaped yet; ESRCH or ENODATA if the kernel has no status; ENOTTY or EINVAL before
/// Linux 6.15.
pub fn exit_status(pidfd: impl AsFd) -> Result<i32, Errno> {
    let mut info = Info { mask: PIDFD_INFO_EXIT, ..Info::default() };
    // SAFETY: the kernel writes at most as many bytes as the number of the request says.
    unsafe {
        crate::raw::call(
            crate::raw::nr::IOCTL,
            crate::raw::args![pidfd.as_fd().as_raw_fd(), PIDFD_GET_INFO, &raw mut info],
        )
    }?;
    if info.mask & PIDFD_INFO_EXIT == 0 { Err(Errno::AGAIN) } else { Ok(info.exit_code) }
}

/// Returns the exit code of the process `pid`, to which `pidfd` refers and which has exited: its exit status, or 128 + n
/// if signal n killed it. Returns `None` if the kernel does not tell: before Linux 6.15, a process that has been reaped.
pub fn exit_code(pid: Pid, pidfd: impl AsFd) -> Option<i32> {
    // A process that is reaped meanwhile has the status of a reaped one the second time.
    (0..2)
        .find_map(|_| {
            exit_status(&pidfd).ok().or_else(|| {
                let status = status_of_zombie(pid)?;
                crate::signal::send(pidfd.as_fd(), 0).is_ok().then_some(status)
            })
        })
        .map(code)
}

/// Converts a status of wait(2) into the exit code by which shells and engines know it.
pub fn code(status: i32) -> i32 {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// Reads field 52 of /proc/PID/stat (proc_pid_stat(5)).
fn status_of_zombie(pid: Pid) -> Option<i32> {
    let path = |file| format!("/proc/{}/{file}", pid.as_raw_nonzero());
    // A reader that may not see the status sees 0. Whoever may read this link may see the status, too.
    readlinkat(CWD, path("ns/user").as_str(), [0; 64]).ok()?;
    crate::identity::stat_field(pid, 52).ok()
}
