//! The mount option `tmpcopyup` of runc: a new tmpfs gets a copy of the directory that it covers.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, Stat, Uid, XattrFlags, chmodat, chownat, fchmod,
    fchown, fgetxattr, flistxattr, fsetxattr, mkdirat, mknodat, openat, readlinkat_raw, sendfile,
    statat, symlinkat, utimensat,
};

use crate::failure::{Failure, Op};

/// Copies the contents of a directory, which `covered` refers to, into the mount `tree`, which is not attached yet.
pub(crate) fn copy_up(covered: BorrowedFd<'_>, tree: BorrowedFd<'_>) -> Result<(), Failure> {
    let source = open_directory(covered, c".")?;
    let top = open_directory(tree, c".")?;
    // A file may be larger than the caller's limit of file sizes.
    sys::signal::ignore_file_size(true);
    let copied = copy_directory(source.as_fd(), top.as_fd());
    sys::signal::ignore_file_size(false);
    copied
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<rustix::fd::OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).op("openat")
}

/// Sets owner, extended attributes and permissions of the copy `to`. The owner must be set first: chown(2) clears
/// set-user-ID, set-group-ID and file capabilities.
fn copy_metadata(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> Result<(), Failure> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    fchown(to, Some(uid), Some(gid)).op("fchown")?;
    copy_attributes(from, to)?;
    fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777)).op("fchmod")
}

/// Copies extended attributes, above all file capabilities. Attributes that a tmpfs cannot have, or whose value is
/// longer than the buffer, are left out; the copy's SELinux label is that of the tmpfs.
// Not inlined, because of its buffers: otherwise every init would touch the pages of a larger frame.
#[inline(never)]
fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Failure> {
    let (mut list, mut value) = ([0u8; 1024], [0u8; 4096]);
    let Ok(length) = flistxattr(from, &mut list[..]) else { return Ok(()) };
    let names = list.get(..length).unwrap_or_default().split_inclusive(|byte| *byte == 0);
    for name in names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
        if name == c"security.selinux" {
            continue;
        }
        let Ok(length) = fgetxattr(from, name, &mut value[..]) else { continue };
        let value = value.get(..length).unwrap_or_default();
        match fsetxattr(to, name, value, XattrFlags::empty()) {
            Err(errno) if name == c"security.capability" => {
                return Err(Failure::new("fsetxattr security.capability", errno));
            }
            _ => {}
        }
    }
    Ok(())
}

// Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
#[inline(never)]
fn copy_directory(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Failure> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 2048];
    let mut entries = RawDir::new(from, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.op("getdents64")?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        copy_entry(from, to, name)?;
    }
    Ok(())
}

fn copy_entry(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> Result<(), Failure> {
    let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).op("fstatat")?;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            mkdirat(to, name, mode).op("mkdirat")?;
            let (source, copy) = (open_directory(from, name)?, open_directory(to, name)?);
            copy_metadata(source.as_fd(), copy.as_fd(), &stat)?;
            copy_directory(source.as_fd(), copy.as_fd())?;
        }
        FileType::RegularFile => copy_file(from, to, name, &stat)?,
        FileType::Symlink => {
            let mut text = [MaybeUninit::<u8>::uninit(); 4097];
            let (bytes, rest) = readlinkat_raw(from, name, &mut text).op("readlinkat")?;
            let length = bytes.len();
            if let Some(end) = rest.first_mut() {
                end.write(0);
            }
            let mut copy = [0u8; 4097];
            for (to, from) in copy.iter_mut().zip(bytes.iter()) {
                *to = *from;
            }
            let link = copy.get(..=length).and_then(|text| CStr::from_bytes_with_nul(text).ok());
            symlinkat(link.unwrap_or(c""), to, name).op("symlinkat")?;
            own(to, name, &stat)?;
        }
        kind => {
            mknodat(to, name, kind, mode, stat.st_rdev).op("mknodat")?;
            own(to, name, &stat)?;
            // chown(2) clears set-user-ID and set-group-ID of nodes as well. Nobody else sees the mount yet, so the
            // name is still that of the node.
            chmodat(to, name, mode, AtFlags::empty()).op("fchmodat")?;
        }
    }
    utimensat(to, name, &sys::fs::times(&stat), AtFlags::SYMLINK_NOFOLLOW).op("utimensat")
}

/// Sets the owner of a copy that cannot be opened.
fn own(to: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<(), Failure> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).op("fchownat")
}

fn copy_file(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
) -> Result<(), Failure> {
    // Another process may have replaced the file since it was listed.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let source = openat(from, name, flags, Mode::empty()).op("openat")?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let copy = openat(to, name, flags, Mode::from_raw_mode(0o600)).op("openat")?;
    let mut left = usize::try_from(stat.st_size).unwrap_or(0);
    while left > 0 {
        match sendfile(&copy, &source, None, left.min(1 << 20)).op("sendfile")? {
            0 => break,
            copied => left = left.saturating_sub(copied),
        }
    }
    copy_metadata(source.as_fd(), copy.as_fd(), stat)
}
