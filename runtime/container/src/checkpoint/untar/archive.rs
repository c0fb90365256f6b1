//! Unpacks an archive of tar. Sparse files, long names and other extensions are left to tar(1).

use alloc::vec::Vec;
use core::str;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chmodat,
    chownat, linkat, makedev, mkdirat, mknodat, openat2, symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::Unless as _;

const BLOCK: usize = 512;

/// A file of an archive.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    name: &'a str,
    kind: u8,
    mode: u32,
    owner: (u32, u32),
    time: i64,
    link: &'a str,
    device: (u32, u32),
    content: &'a [u8],
}

/// Returns the files of an archive, or `None` if there is one that only tar(1) can unpack.
pub(super) fn entries(mut archive: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while let Some((header, rest)) = archive.split_first_chunk::<BLOCK>() {
        if header.iter().all(|byte| *byte == 0) {
            return Some(entries);
        }
        let field = |from: usize, len: usize| header.get(from..from.checked_add(len)?);
        let number = |from, len| {
            let text = str::from_utf8(field(from, len)?).ok()?.trim_matches(['\0', ' ']);
            if text.is_empty() { Some(0) } else { u32::from_str_radix(text, 8).ok() }
        };
        let text = |from, len| {
            let bytes = field(from, len)?;
            // A name without an end may go on elsewhere.
            str::from_utf8(bytes.get(..bytes.iter().position(|byte| *byte == 0)?)?).ok()
        };
        let size = usize::try_from(number(124, 12)?).ok()?;
        let (content, rest) = rest.split_at_checked(size.next_multiple_of(BLOCK))?;
        let entry = Entry {
            name: text(0, 100)?.trim_end_matches('/'),
            kind: header[156],
            mode: number(100, 8)?,
            owner: (number(108, 8)?, number(116, 8)?),
            time: u64::from_str_radix(text(136, 12)?.trim(), 8).ok()?.try_into().ok()?,
            link: text(157, 100)?,
            device: (number(329, 8)?, number(337, 8)?),
            content: content.get(..size)?,
        };
        let is_plain = field(257, 8)? == b"ustar  \0" && text(265, 32)?.is_empty();
        let is_known = matches!(entry.kind, b'0'..=b'6') && text(297, 32)?.is_empty();
        if !is_plain || !is_known {
            return None;
        }
        entries.push(entry);
        archive = rest;
    }
    None
}

/// Makes the files of an archive below the directory `root`, which is empty.
pub(super) fn unpack(root: &OwnedFd, entries: &[Entry<'_>]) -> Result<(), Errno> {
    let directory = |path: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = if path.is_empty() { "." } else { path };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(root, path, flags, Mode::empty(), how)
    };
    for entry in entries {
        let (parent, name) = entry.name.rsplit_once('/').unwrap_or((".", entry.name));
        let parent = directory(parent)?;
        let made = Mode::from_raw_mode(0o600);
        let node = |kind| {
            let (major, minor) = entry.device;
            mknodat(&parent, name, kind, made, makedev(major, minor))
        };
        match entry.kind {
            b'0' => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                let file = openat2(&parent, name, flags, made, how)?;
                sys::stdio::write_all(file, entry.content)?;
            }
            b'1' => {
                let (place, target) = entry.link.rsplit_once('/').unwrap_or((".", entry.link));
                linkat(directory(place)?, target, &parent, name, AtFlags::empty())?;
                continue;
            }
            b'2' => symlinkat(entry.link, &parent, name)?,
            b'3' => node(FileType::CharacterDevice)?,
            b'4' => node(FileType::BlockDevice)?,
            b'6' => node(FileType::Fifo)?,
            _ => drop(mkdirat(&parent, name, Mode::RWXU).unless(Errno::EXIST)?),
        }
        let (uid, gid) = (Uid::from_raw(entry.owner.0), Gid::from_raw(entry.owner.1));
        chownat(&parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        if entry.kind != b'2' {
            chmodat(&parent, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())?;
        }
        set_time(parent.as_fd(), name, entry.time)?;
    }
    // Files that were made in a directory have changed its time.
    entries.iter().rev().filter(|entry| entry.kind == b'5').try_for_each(|entry| {
        let (parent, name) = entry.name.rsplit_once('/').unwrap_or((".", entry.name));
        set_time(directory(parent)?.as_fd(), name, entry.time)
    })
}

fn set_time(parent: BorrowedFd<'_>, name: &str, seconds: i64) -> Result<(), Errno> {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)
}
