//! Bounds the size of a log that is an ordinary file, without a tmpfs of its own.
//!
//! The file begins with a hole. The hole is so long that only the log's maximum size is left between its end and the
//! greatest file length that the file system allows. Output is appended after the hole. Once this space is full,
//! write(2) fails with EFBIG, or with EINVAL if the end of the write would exceed the largest offset; neither sends a
//! signal. This method requires neither privileges nor a process that copies the output. A program that truncates the
//! file removes the bound. It could just as well fill its writable layer, which has no bound.

use alloc::format;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, fstatfs, ftruncate, openat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// A file in the container's directory, which contains the offset at which the output begins.
const START: &str = "log/start";
/// The magic numbers of file systems whose files have holes (statfs(2)): tmpfs, ext2 to ext4, XFS, Btrfs, overlayfs.
const WITH_HOLES: [i64; 5] = [0x0102_1994, 0xEF53, 0x5846_5342, 0x9123_683E, 0x794C_7630];
/// The output begins at a multiple of this size. Otherwise the block in which the output begins would also contain
/// zeros before the output.
const BLOCK: u64 = 4096;
/// The size of the largest block of a tmpfs in bytes: a huge page.
const LAST: u64 = 2 << 20;
/// The largest offset in a file (loff_t).
const LARGEST: u64 = i64::MAX.unsigned_abs();

/// Limits the output that can be appended to an empty file to `size` bytes, plus or minus one block.
///
/// # Errors
/// EOPNOTSUPP if the file system may not support holes; EFBIG if the process has a limit on file sizes (RLIMIT_FSIZE),
/// since exceeding it raises SIGXFSZ; those of ftruncate(2) and write(2). After an error, the file is empty.
pub fn bound(directory: BorrowedFd<'_>, log: impl AsFd, size: u64) -> Result<(), Errno> {
    if !WITH_HOLES.contains(&fstatfs(&log)?.f_type) {
        return Err(Errno::OPNOTSUPP);
    }
    if getrlimit(Resource::Fsize).current.is_some() {
        return Err(Errno::FBIG);
    }
    let bounded = longest(&log).and_then(|longest| {
        let start = (longest + 1).saturating_sub(size) / BLOCK * BLOCK;
        ftruncate(&log, start)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(directory, START, flags, Mode::RUSR | Mode::WUSR)?;
        sys::stdio::write_all(&file, format!("{start}").as_bytes())
    });
    if bounded.is_err() {
        ftruncate(&log, 0)?;
    }
    bounded
}

/// Returns the offset at which the output begins. The offset is no longer valid if the program has truncated the log.
pub fn start(directory: BorrowedFd<'_>) -> u64 {
    let text = sys::fs::read_at(directory, START).unwrap_or_default();
    core::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the greatest length that the file system allows for a file. No system call returns this value, so this
/// function tries lengths with ftruncate(2). Most file systems allow the largest offset. The length of `log` afterwards
/// is undefined.
fn longest(log: impl AsFd) -> Result<u64, Errno> {
    let (mut fits, mut exceeds) = (0, LARGEST + 1);
    let mut length = LARGEST;
    while exceeds - fits > 1 {
        match ftruncate(&log, length) {
            Ok(()) => fits = length,
            Err(Errno::FBIG | Errno::INVAL) => exceeds = length,
            Err(errno) => return Err(errno),
        }
        length = fits + (exceeds - fits) / 2;
    }
    Ok(fits)
}

/// Returns the number of bytes, at most `length`, that can be requested from pread(2) at offset `at`: pread(2) fails if
/// the end of the request exceeds the largest offset.
pub fn readable(at: u64, length: usize) -> usize {
    usize::try_from(LARGEST.saturating_sub(at)).map_or(length, |left| left.min(length))
}

/// Returns whether an offset is in the last 2 MiB below `LARGEST`, the largest offset that a file can have. There,
/// lseek(2) with SEEK_DATA finds no data on tmpfs, even if the file contains data.
pub fn is_at_the_end(at: u64) -> bool {
    LARGEST.saturating_sub(at) < LAST
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn appended_output_is_bounded() {
        let directory = std::env::temp_dir().join(format!("dayfly-bound-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("log")).unwrap();
        let path = directory.join("log/output");
        let log =
            std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path).unwrap();
        let fd = std::fs::File::open(&directory).unwrap();
        assert_eq!(start(fd.as_fd()), 0);
        bound(fd.as_fd(), &log, 65536).unwrap();
        let start = start(fd.as_fd());
        assert_eq!(log.metadata().unwrap().len(), start);
        let mut written = 0;
        let refused = loop {
            match rustix::io::write(&log, b"line\n") {
                Ok(length) => written += length,
                Err(errno) => break errno,
            }
        };
        assert!(matches!(refused, Errno::FBIG | Errno::INVAL), "{refused}");
        assert!((65530..=65536).contains(&written), "{written}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn no_read_exceeds_the_largest_offset() {
        assert_eq!(readable(0, 16384), 16384);
        assert_eq!(readable(LARGEST - 5, 16384), 5);
        assert_eq!(readable(LARGEST + 1, 16384), 0);
        assert!(is_at_the_end(LARGEST) && is_at_the_end(LARGEST - 5) && !is_at_the_end(1 << 44));
    }
}
