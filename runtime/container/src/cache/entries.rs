//! Limits the number of entries in a directory: the oldest entries are removed first.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RawDir, statat, unlinkat};
use rustix::io::Errno;

use crate::Unless as _;

/// The limits of a directory.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The maximum number of entries.
    pub entries: usize,
    /// The number of entries that are left if there were more than `entries`. The smaller it is, the more rarely are
    /// entries removed, and their times read.
    pub left: usize,
    /// The maximum total size in bytes. Without it, sizes are not read.
    pub bytes: Option<u64>,
}

/// An entry of a directory. Entries are ordered by age, the oldest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The time of the last modification: seconds and nanoseconds.
    modified: (i64, u64),
    name: CString,
    size: u64,
}

/// Removes the oldest entries of `directory` if it exceeds `bound`. A process that has a removed entry open can still
/// use it.
///
/// # Errors
/// Those of getdents64(2), fstatat(2) and unlinkat(2).
pub fn trim(directory: BorrowedFd<'_>, bound: Bound) -> Result<(), Errno> {
    let names = names(directory)?;
    let most = if names.len() > bound.entries { bound.left } else { bound.entries };
    if names.len() <= most && bound.bytes.is_none() {
        return Ok(());
    }
    let mut entries = aged(directory, names)?;
    entries.sort_unstable();
    let mut bytes: u64 = entries.iter().map(|entry| entry.size).sum();
    let mut left = entries.len();
    for entry in entries {
        if left <= most && bound.bytes.is_none_or(|most| bytes <= most) {
            break;
        }
        // NOENT: another process has removed the entry.
        unlinkat(directory, &entry.name, AtFlags::empty()).unless(Errno::NOENT)?;
        left -= 1;
        bytes -= entry.size;
    }
    Ok(())
}

/// Returns the entries with these names, unsorted.
fn aged(directory: BorrowedFd<'_>, names: Vec<CString>) -> Result<Vec<Entry>, Errno> {
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let stat = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).unless(Errno::NOENT)?;
        entries.extend(stat.map(|stat| Entry {
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            name,
            size: u64::try_from(stat.st_size).unwrap_or(0),
        }));
    }
    Ok(entries)
}

/// Returns the names in `directory`, without `.` and `..`, from the descriptor's current position on.
pub(crate) fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = reader.next() {
        let entry = entry?;
        if ![c".", c".."].contains(&entry.file_name()) {
            names.push(entry.file_name().into());
        }
    }
    Ok(names)
}
