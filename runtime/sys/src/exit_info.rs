//! The exit status of a process that another process has reaped (PIDFD_GET_INFO, Linux 6.15).

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

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

/// Converts a status of wait(2) into the exit code by which shells and engines know it.
pub fn code(status: i32) -> i32 {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}
