//! Reads and writes small files in one go, relative to a directory descriptor.

use core::mem::MaybeUninit;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Stat, StatFs, Timespec, Timestamps, openat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Returns the magic number of a file system, which fits in 32 bits even where the kernel's field is wider.
#[must_use]
pub fn magic(filesystem: &StatFs) -> u32 {
    crate::raw::halves(filesystem.f_type.cast_unsigned())[0]
}

/// Returns the times of a file, for utimensat(2) on its copy.
#[must_use]
#[allow(clippy::cast_possible_wrap, reason = "only on x86-64 the fields are unsigned")]
pub fn times(of: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: of.st_atime as _, tv_nsec: of.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: of.st_mtime as _, tv_nsec: of.st_mtime_nsec as _ },
    }
}

#[cfg(feature = "alloc")]
mod read;
#[cfg(feature = "alloc")]
pub use read::{Owned, read_all, read_at, read_owned_at, read_proc_text, read_text};

/// Converts a path for a system call.
///
/// # Errors
/// EINVAL if it contains a NUL, which no path can contain.
#[cfg(feature = "alloc")]
pub fn c_path(
    path: impl Into<alloc_crate::vec::Vec<u8>>,
) -> Result<alloc_crate::ffi::CString, Errno> {
    alloc_crate::ffi::CString::new(path).map_err(|_| Errno::INVAL)
}

/// Writes `bytes` to the existing file `path`, relative to `dir`, in a single write(2), as procfs and cgroupfs require.
///
/// # Errors
/// Those of openat(2) and write(2).
pub fn write_at(dir: impl AsFd, path: impl Arg, bytes: &[u8]) -> Result<(), Errno> {
    let fd = openat(dir, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(fd, bytes).map(drop)
}

/// Opens a directory, for use as the base of relative paths.
///
/// # Errors
/// Those of openat(2).
pub fn open_dir(dir: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns whether the working directory lies inside the current root. getcwd(2) marks a directory outside the root
/// with "(unreachable)", and fails for a removed directory.
///
/// # Errors
/// ERANGE for a path over 4096 bytes.
pub fn working_directory_is_reachable() -> Result<bool, Errno> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    // SAFETY: the buffer is writable for the length given.
    let result = unsafe {
        crate::raw::call(
            crate::raw::nr::GETCWD,
            crate::raw::args![buffer.as_mut_ptr(), buffer.len()],
        )
    };
    match result {
        // SAFETY: on success the kernel has written at least the terminating NUL.
        Ok(_) => Ok(unsafe { buffer[0].assume_init() } == b'/'),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Creates a directory and its parents.
///
/// # Errors
/// Those of mkdir(2) but EEXIST, with the directory that cannot be created.
pub fn make_directories(path: &str, mode: u32) -> Result<(), (&str, Errno)> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    for end in ends.chain([path.len()]) {
        let part = path.get(..end).unwrap_or_default();
        match rustix::fs::mkdir(part, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err((part, errno)),
        }
    }
    Ok(())
}
