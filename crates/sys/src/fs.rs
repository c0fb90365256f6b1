//! Small files, whole: reading and writing by directory descriptor.

use core::mem::MaybeUninit;

use alloc_crate::string::String;
use alloc_crate::vec::Vec;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};
use rustix::path::Arg;

/// Bytes. What has more is no configuration but something without an end, as /dev/zero.
const LARGEST: usize = 1 << 26;

/// Reads all of `fd`.
///
/// # Errors
/// Those of read(2); EFBIG where there is no end after 64 MiB.
pub fn read_all(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    read_into(fd, &mut bytes)?;
    Ok(bytes)
}

/// Returns whose file it is, too: with what tells the size that costs nothing.
fn read_into(fd: impl AsFd, bytes: &mut Vec<u8>) -> Result<Option<u32>, Errno> {
    let stat = rustix::fs::fstat(fd.as_fd()).ok();
    let size = usize::try_from(stat.as_ref().map_or(0, |stat| stat.st_size)).unwrap_or(0);
    let owner = stat.map(|stat| stat.st_uid);
    bytes.reserve(size.clamp(512, 1 << 24) + 1);
    loop {
        if bytes.spare_capacity_mut().is_empty() {
            if bytes.len() >= LARGEST {
                return Err(Errno::FBIG);
            }
            bytes.reserve(bytes.len());
        }
        match read(fd.as_fd(), rustix::buffer::spare_capacity(bytes)) {
            Ok(0) => return Ok(owner),
            // A file that says how large it is (procfs says 0) has no more.
            Ok(_) if bytes.len() == size => return Ok(owner),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Reads the file `path`, relative to `dir`.
///
/// # Errors
/// Those of openat(2) and read(2).
pub fn read_at(dir: impl AsFd, path: impl Arg) -> Result<Vec<u8>, Errno> {
    read_all(openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Reads the file `path`, relative to `dir`, and tells the user it belongs to.
///
/// # Errors
/// Those of openat(2), fstat(2) and read(2).
pub fn read_owned_at(dir: impl AsFd, path: impl Arg) -> Result<(Vec<u8>, u32), Errno> {
    let file = openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    let owner = read_into(file, &mut bytes)?;
    Ok((bytes, owner.ok_or(Errno::BADF)?))
}

/// Reads the file `path` as text; EILSEQ if it is not UTF-8.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read_text(path: impl Arg) -> Result<String, Errno> {
    String::from_utf8(read_at(CWD, path)?).map_err(|_| Errno::ILSEQ)
}

/// Writes `bytes` to the existing file `path`, relative to `dir`, in one write as procfs and cgroupfs
/// want it.
///
/// # Errors
/// Those of openat(2) and write(2).
pub fn write_at(dir: impl AsFd, path: impl Arg, bytes: &[u8]) -> Result<(), Errno> {
    let fd = openat(dir, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(fd, bytes).map(drop)
}

/// Opens a directory for use as a base.
///
/// # Errors
/// Those of openat(2).
pub fn open_dir(dir: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Whether the working directory lies inside the current root. getcwd(2) marks one that does not
/// with "(unreachable)", and has no name for one that was removed.
///
/// # Errors
/// ERANGE for a path over 4096 bytes.
pub fn working_directory_is_reachable() -> Result<bool, Errno> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    // SAFETY: the buffer is writable for the length given.
    let result = unsafe {
        crate::raw::call(crate::raw::nr::GETCWD, [buffer.as_mut_ptr().addr(), buffer.len()])
    };
    match result {
        // SAFETY: the kernel has written a name, at least its end.
        Ok(_) => Ok(unsafe { buffer[0].assume_init() } == b'/'),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}
