//! Files read whole.

use alloc_crate::string::String;
use alloc_crate::vec::Vec;
use rustix::fd::AsFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
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

fn read_into(fd: impl AsFd, bytes: &mut Vec<u8>) -> Result<(), Errno> {
    let size = fstat(fd.as_fd()).map_or(0, |stat| stat.st_size);
    read_sized(fd, usize::try_from(size).unwrap_or(0), bytes)
}

/// Reads what is said to have that size.
fn read_sized(fd: impl AsFd, size: usize, bytes: &mut Vec<u8>) -> Result<(), Errno> {
    bytes.reserve(size.clamp(512, 1 << 24) + 1);
    loop {
        if bytes.spare_capacity_mut().is_empty() {
            if bytes.len() >= LARGEST {
                return Err(Errno::FBIG);
            }
            bytes.reserve(bytes.len());
        }
        match read(fd.as_fd(), rustix::buffer::spare_capacity(bytes)) {
            Ok(0) => return Ok(()),
            // A file that says how large it is (procfs says 0) has no more.
            Ok(_) if bytes.len() == size => return Ok(()),
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

/// What [`read_owned_at`] has found.
#[derive(Debug)]
pub enum Owned {
    /// All of an ordinary file.
    Read(Vec<u8>),
    /// A file of this user's, who is not trusted.
    Foreign(u32),
    /// No ordinary file.
    Special,
}

/// Reads the file `path`, relative to `dir`, if it is an ordinary one of at most `longest` bytes whose owner is
/// `trusted`. Nothing is read of anything else, no link is followed, and nobody waited for: a directory can be
/// somebody else's, who puts there what they like.
///
/// # Errors
/// Those of openat(2), fstat(2) and read(2): ELOOP for a link, ENXIO for a socket; EFBIG for more than `longest`.
pub fn read_owned_at(
    dir: impl AsFd,
    path: impl Arg,
    trusted: impl FnOnce(u32) -> bool,
    longest: usize,
) -> Result<Owned, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = openat(dir, path, flags | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Owned::Special);
    }
    if !trusted(stat.st_uid) {
        return Ok(Owned::Foreign(stat.st_uid));
    }
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    if size > longest {
        return Err(Errno::FBIG);
    }
    let mut bytes = Vec::new();
    read_sized(&file, size, &mut bytes)?;
    Ok(Owned::Read(bytes))
}

/// Reads the file `path` as text; EILSEQ if it is not UTF-8.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read_text(path: impl Arg) -> Result<String, Errno> {
    String::from_utf8(read_at(CWD, path)?).map_err(|_| Errno::ILSEQ)
}
