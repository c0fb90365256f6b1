//! Reads whole files.

use alloc_crate::string::String;
use alloc_crate::vec::Vec;
use rustix::fd::AsFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, read};
use rustix::path::Arg;

/// The maximum file size in bytes. No configuration file is that large; a larger file may be endless, such as
/// /dev/zero.
const LARGEST: usize = 1 << 26;

/// Reads `fd` to its end.
///
/// # Errors
/// Those of read(2); EFBIG if the file is larger than 64 MiB.
pub fn read_all(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    read_into(fd, &mut bytes)?;
    Ok(bytes)
}

fn read_into(fd: impl AsFd, bytes: &mut Vec<u8>) -> Result<(), Errno> {
    let size = fstat(fd.as_fd()).map_or(0, |stat| stat.st_size);
    read_sized(fd, usize::try_from(size).unwrap_or(0), bytes)
}

/// Reads a file for which fstat(2) reports `size`.
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
            // The end of the file is at its reported size, except that procfs reports 0.
            Ok(_) if bytes.len() == size => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Reads the file `path`, relative to `dir`.
///
/// # Errors
/// Those of openat(2) and [`read_all`].
pub fn read_at(dir: impl AsFd, path: impl Arg) -> Result<Vec<u8>, Errno> {
    read_all(openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The result of [`read_owned_at`].
#[derive(Debug)]
pub enum Owned {
    /// The contents of a regular file.
    Read(Vec<u8>),
    /// The file belongs to this user, who is not trusted.
    Foreign(u32),
    /// Not a regular file.
    Special,
}

/// Reads the file `path`, relative to `dir`, if it is a regular file of at most `longest` bytes whose owner is
/// `trusted`. Other files are not read, links are not followed, and the call never blocks, because an untrusted user
/// may own the directory and create any kind of file there.
///
/// # Errors
/// Those of openat(2), fstat(2) and read(2): ELOOP for a link, ENXIO for a socket; EFBIG for more than `longest` bytes.
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

/// Reads the file `path` as text.
///
/// # Errors
/// Those of open(2) and [`read_all`]; EILSEQ if the file is not UTF-8.
pub fn read_text(path: impl Arg) -> Result<String, Errno> {
    String::from_utf8(read_at(CWD, path)?).map_err(|_| Errno::ILSEQ)
}

/// Reads the file `path` of procfs as text, without asking for its size, which procfs reports as 0.
///
/// # Errors
/// As [`read_text`].
pub fn read_proc_text(path: impl Arg) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    read_sized(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, 0, &mut bytes)?;
    String::from_utf8(bytes).map_err(|_| Errno::ILSEQ)
}
