//! Opens a pinned bpf(2) object relative to a directory.

use core::ffi::CStr;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::raw::address;

const BPF_OBJ_GET: usize = 7;
const BPF_F_PATH_FD: u32 = 1 << 14;

/// The attributes of BPF_OBJ_GET.
#[repr(C)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
    directory: i32,
    padding: u32,
}

/// Opens the object pinned at `path`, relative to `directory` (Linux 6.5). The descriptor is close-on-exec.
///
/// # Errors
/// EINVAL before Linux 6.5; otherwise as [`crate::bpf::get_pinned`].
pub fn get_pinned_at(directory: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let object = Object {
        path: address(path.as_ptr()),
        fd: 0,
        flags: BPF_F_PATH_FD,
        directory: directory.as_raw_fd(),
        padding: 0,
    };
    // SAFETY: the structure has the size given, its path is NUL-terminated; on success the kernel returns a new
    // descriptor.
    unsafe {
        let fd = crate::raw::call(
            crate::raw::nr::BPF,
            crate::raw::args![BPF_OBJ_GET, &raw const object, size_of::<Object>()],
        )?;
        Ok(crate::raw::new_fd(fd))
    }
}
