//! The mode `copy`, which is used if no other mode works: copies all files and changes their owners
//! to the container's id range. This mode is slow, but works on every kernel and filesystem. The
//! copy contains what an overlayfs mount of the layers would show.

use alloc::collections::BTreeMap;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode as Permissions, OFlags, SeekFrom, Stat, XattrFlags, chmodat,
    chownat, copy_file_range, fstat, ftruncate, lgetxattr, linkat, llistxattr, lsetxattr, mkdirat,
    mknodat, openat, readlinkat, seek, statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use rustix::process::{Gid, Uid};
use sys::Context;
use sys::fs::c_path;
use sys::mount::{MountAttr, attr, clone_with, mount_setattr};

use crate::options::{Recipe, Upper};
use crate::remove::{empty, names, open_directory, remove_at};
use crate::upper::new_tmpfs;
use crate::{Error, files, shift};

const DIRECTORY: &CStr = c"copy";
/// Prefixes of the extended attributes that overlayfs itself uses.
const MARKS: [&str; 2] = ["trusted.overlay.", "user.overlay."];
/// Maximum length in bytes: of the list of all attribute names of a file, or of one value.
const ATTRIBUTES: usize = 65536;
const CAPABILITY: &CStr = c"security.capability";
const ACLS: [&CStr; 2] = [c"system.posix_acl_access", c"system.posix_acl_default"];
const LABEL: &CStr = c"security.selinux";
/// A directory's path of this many bytes or more is too long (PATH_MAX).
pub(crate) const LONGEST_PATH: usize = 4096;

/// Copies all layers of a recipe, and returns the copy as a detached mount.
pub(crate) fn all(recipe: &Recipe) -> Result<OwnedFd, Error> {
    let tmpfs = match recipe.upper {
        Upper::Tmpfs { size } => Some(new_tmpfs(size)?),
        Upper::None | Upper::Directory | Upper::Given { .. } => None,
    };
    let object = || recipe.directory.to_string_lossy();
    let place = match &tmpfs {
        Some(tmpfs) => open_directory(tmpfs.as_fd(), c"."),
        None => open_directory(CWD.as_fd(), &recipe.directory).and_then(|directory| {
            remove_at(directory.as_fd(), DIRECTORY)?;
            mkdirat(&directory, DIRECTORY, Permissions::RWXU)?;
            open_directory(directory.as_fd(), DIRECTORY)
        }),
    };
    let place = place.context("make copy in", object())?;
    let mut copier = Copier {
        root: place.as_fd(),
        owner: recipe.root,
        label: recipe.label.as_deref(),
        keeps_marks: false,
        links: BTreeMap::new(),
        list: vec![0; ATTRIBUTES],
        value: vec![0; ATTRIBUTES],
    };
    for layer in recipe.layers.stack.iter().rev() {
        let path = recipe.layers.path_of(layer)?;
        let from = open_directory(CWD.as_fd(), &path).context("open", path.to_string_lossy())?;
        copier.links.clear();
        copier.directory(from.as_fd(), place.as_fd(), b"")?;
        let stat = fstat(&from).context("stat", path.to_string_lossy())?;
        copier.finish(from.as_fd(), place.as_fd(), c".", &stat).context("copy", "/")?;
    }
    files::replace(recipe, place.as_fd())?;
    let tree = match tmpfs {
        Some(tmpfs) => tmpfs,
        None => {
            // Where the store's mount is shared, the container's mounts must not appear in the copy on the host.
            clone_with(place.as_fd(), c"", OpenTreeFlags::AT_EMPTY_PATH, &MountAttr::PRIVATE)
                .context("open_tree", object())?
        }
    };
    if recipe.upper == Upper::None {
        let attr = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
        mount_setattr(tree.as_fd(), false, &attr).context("mount_setattr", object())?;
    }
    Ok(tree)
}

/// Copies the files in a directory to an empty directory, as they are: with their owners, whiteouts, and overlayfs's
/// own attributes. The directory may be an upper layer.
///
/// # Errors
/// The error names the file that cannot be copied.
pub fn copy_upper(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Error> {
    let mut copier = Copier {
        root: to,
        owner: None,
        label: None,
        keeps_marks: true,
        links: BTreeMap::new(),
        list: vec![0; ATTRIBUTES],
        value: vec![0; ATTRIBUTES],
    };
    copier.directory(from, to, b"")?;
    let stat = fstat(from).context("stat", "/")?;
    Ok(copier.finish(from, to, c".", &stat).context("copy", "/")?)
}

/// Copies a layer over the copies of the layers below it.
struct Copier<'a> {
    root: BorrowedFd<'a>,
    /// The host's user and group ids to which the container's root maps.
    owner: Option<(u32, u32)>,
    /// The SELinux label of every file, which replaces the file's own label.
    label: Option<&'a CStr>,
    /// Whether whiteouts and overlayfs's attributes are copied. Otherwise they take effect on the copy.
    keeps_marks: bool,
    /// For each hard-linked file, by its filesystem and inode in the layer: the path of the first copied name.
    links: BTreeMap<(u64, u64), CString>,
    /// Buffers for the list of names of extended attributes, and for one value (XATTR_LIST_MAX, XATTR_SIZE_MAX).
    list: Vec<u8>,
    value: Vec<u8>,
}

impl Copier<'_> {
    /// Copies the entries of a directory. `path` is the directory's path in the copy; it is used
    /// for hard links and in errors. The path consists of bytes, because names of files need not be
    /// UTF-8, and a lossy conversion would change a name.
    fn directory(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        // Bounds the depth, and with it the stack that this function uses.
        if path.len() >= LONGEST_PATH {
            return Err(sys::Error::new("copy directory", shown(path), Errno::NAMETOOLONG).into());
        }
        let list = names(from).context("read", shown(path))?;
        for name in list {
            let place = match path {
                b"" => name.to_bytes().to_vec(),
                path => [path, name.to_bytes()].join(&b'/'),
            };
            let stat =
                statat(from, &name, AtFlags::SYMLINK_NOFOLLOW).context("stat", shown(&place))?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let (from, below) =
                    self.enter(from, to, &name).context("copy directory", shown(&place))?;
                self.directory(from.as_fd(), below.as_fd(), &place)?;
            } else if !self.file(from, to, &name, &stat, &place)? {
                continue;
            }
            self.finish(from, to, &name, &stat).context("copy", shown(&place))?;
        }
        Ok(())
    }

    /// Opens a directory of the layer and the corresponding directory of the copy. If the copy has no such directory,
    /// it is created; if it has one and the layer's directory is opaque, the copy's directory is emptied.
    fn enter(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(OwnedFd, OwnedFd), Errno> {
        let below = open_directory(from, name)?;
        let into = match open_directory(to, name) {
            Ok(into) => into,
            Err(_) => {
                remove_at(to, name)?;
                mkdirat(to, name, Permissions::RWXU)?;
                open_directory(to, name)?
            }
        };
        if !self.keeps_marks && is_opaque(from, name) {
            empty(into.as_fd())?;
        }
        Ok((below, into))
    }

    /// Creates an entry that is not a directory. Returns false for a whiteout, and for a hard link to a file copied
    /// earlier, because neither needs an owner and attributes to be set.
    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        place: &[u8],
    ) -> Result<bool, Error> {
        let object = || shown(place);
        remove_at(to, name).context("replace", object())?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::CharacterDevice && stat.st_rdev == 0 && !self.keeps_marks {
            // The entry is a whiteout.
            return Ok(false);
        }
        if stat.st_nlink > 1 {
            let inode = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.links.get(&inode) {
                link(self.root, first, to, name).context("link", object())?;
                return Ok(false);
            }
            self.links.insert(inode, c_path(place).context("link", object())?);
        }
        let made = match kind {
            FileType::RegularFile => contents(from, to, name, stat),
            FileType::Symlink => {
                readlinkat(from, name, Vec::new()).and_then(|target| symlinkat(&target, to, name))
            }
            kind => mknodat(to, name, kind, Permissions::RUSR, stat.st_rdev),
        };
        made.context("copy", object())?;
        Ok(true)
    }

    /// Sets owner, attributes, permissions and times of a copied file. The owner must be set first, because chown(2)
    /// clears set-user-ID and file capabilities.
    fn finish(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        let (uid, gid) = self.owner.unzip();
        let (uid, gid) = (shift::id(stat.st_uid, uid), shift::id(stat.st_gid, gid));
        chownat(to, name, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), nofollow)?;
        self.attributes(&path_of(from, name)?, &path_of(to, name)?)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            chmodat(to, name, Permissions::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
        }
        utimensat(to, name, &sys::fs::times(stat), nofollow)
    }

    fn attributes(&mut self, from: &CStr, to: &CStr) -> Result<(), Errno> {
        let size = match llistxattr(from, &mut self.list[..]) {
            Err(Errno::OPNOTSUPP) => 0,
            size => size?,
        };
        let list = self.list.get(..size).unwrap_or_default();
        let names = list.split_inclusive(|byte| *byte == 0);
        for name in names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
            let is_replaced = self.label.is_some() && name == LABEL;
            let has = |mark: &&str| name.to_bytes().starts_with(mark.as_bytes());
            let is_mark = !self.keeps_marks && MARKS.iter().any(has);
            if is_replaced || is_mark {
                continue;
            }
            let size = lgetxattr(from, name, &mut self.value[..])?;
            let value = self.value.get(..size).unwrap_or_default();
            let shifted = match self.owner {
                Some((root, _)) if name == CAPABILITY => Some(shift::capabilities(value, root)),
                Some(first) if ACLS.contains(&name) => Some(shift::acl(value, first)),
                _ => None,
            };
            lsetxattr(to, name, shifted.as_deref().unwrap_or(value), XattrFlags::empty())?;
        }
        match self.label {
            Some(label) => lsetxattr(to, LABEL, label.to_bytes(), XattrFlags::empty()),
            None => Ok(()),
        }
    }
}

/// Returns a path for a name in a directory that is given by descriptor. Extended attributes can only be read and set
/// by path.
fn path_of(directory: BorrowedFd<'_>, name: &CStr) -> Result<CString, Errno> {
    let directory = format!("/proc/self/fd/{}/", directory.as_raw_fd());
    c_path([directory.as_bytes(), name.to_bytes()].concat())
}

/// Returns a path in the copy, for an error.
fn shown(path: &[u8]) -> String {
    format!("/{}", String::from_utf8_lossy(path))
}

/// Creates `name` as a hard link to the file with the path `first` in the copy. Symbolic links in
/// `first` are not followed.
fn link(root: BorrowedFd<'_>, first: &CStr, to: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let mut names = first.to_bytes().split(|byte| *byte == b'/');
    let last = names.next_back().unwrap_or_default();
    let mut directory = None;
    for part in names {
        let above = directory.as_ref().map_or(root, AsFd::as_fd);
        directory = Some(open_directory(above, &c_path(part)?)?);
    }
    linkat(directory.as_ref().map_or(root, AsFd::as_fd), last, to, name, AtFlags::empty())
}

fn is_opaque(at: BorrowedFd<'_>, name: &CStr) -> bool {
    let Ok(path) = path_of(at, name) else { return false };
    MARKS.iter().any(|mark| {
        let mut value = [0u8; 1];
        let key = format!("{mark}opaque");
        lgetxattr(&path, key.as_str(), &mut value[..]) == Ok(1) && value == *b"y"
    })
}

/// Copies a regular file.
fn contents(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
) -> Result<(), Errno> {
    // If a named pipe has replaced the file, open(2) would block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::NONBLOCK;
    let from = openat(from, name, flags | OFlags::CLOEXEC, Permissions::empty())?;
    let opened = fstat(&from)?;
    if (opened.st_dev, opened.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(Errno::STALE);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = openat(to, name, flags, Permissions::RUSR | Permissions::WUSR)?;
    with_holes(&from, &to, stat.st_size.unsigned_abs())
}

/// Copies the contents of a regular file of `size` bytes, and preserves its holes.
///
/// # Errors
/// Those of lseek(2), of reading and of writing.
pub fn with_holes(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<(), Errno> {
    let mut at = 0;
    while at < size {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => at,
            Err(errno) => return Err(errno),
        };
        let end = seek(from, SeekFrom::Hole(data)).unwrap_or(size).min(size);
        stretch(from, to, data, end)?;
        at = end.max(data + 1);
    }
    ftruncate(to, size)
}

fn stretch(from: &OwnedFd, to: &OwnedFd, start: u64, end: u64) -> Result<(), Errno> {
    let (mut at, mut into) = (start, start);
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 30);
        match copy_file_range(from, Some(&mut at), to, Some(&mut into), length) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            // copy_file_range(2) fails between some filesystems, and before Linux 5.3 between any two.
            Err(_) => return by_hand(from, to, at, end),
        }
    }
    Ok(())
}

fn by_hand(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64) -> Result<(), Errno> {
    let mut buffer = vec![0u8; 1 << 16];
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let room = buffer.get_mut(..most).unwrap_or_default();
        let length = rustix::io::pread(from, &mut *room, at)?;
        if length == 0 {
            return Ok(());
        }
        let mut bytes = room.get(..length).unwrap_or_default();
        while !bytes.is_empty() {
            let written = rustix::io::pwrite(to, bytes, at)?;
            bytes = bytes.get(written..).unwrap_or_default();
            at += written as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, symlink};

    /// Lossy conversion to UTF-8 would turn the name `\xff` into the name of the link.
    #[test]
    fn names_need_not_be_text() {
        let dir = std::env::temp_dir().join(format!("dayfly-copy-{}", std::process::id()));
        let (from, to, outside) = (dir.join("from"), dir.join("to"), dir.join("outside"));
        let odd = OsStr::from_bytes(b"\xff");
        fs::create_dir_all(from.join(odd)).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "outside").unwrap();
        symlink(&outside, from.join("\u{fffd}")).unwrap();
        fs::write(from.join(odd).join("file"), "inside").unwrap();
        for number in 0..20 {
            fs::hard_link(from.join(odd).join("file"), from.join(format!("{number}"))).unwrap();
        }
        let open = |path: &std::path::Path| fs::File::open(path).unwrap();
        copy_upper(open(&from).as_fd(), open(&to).as_fd()).unwrap();
        let copied = fs::metadata(to.join(odd).join("file")).unwrap();
        assert_eq!(copied.nlink(), 21);
        for number in 0..20 {
            let name = to.join(format!("{number}"));
            assert_eq!(fs::read(&name).unwrap(), b"inside");
            assert_eq!(fs::metadata(&name).unwrap().ino(), copied.ino());
        }
        assert_eq!(fs::metadata(outside.join("file")).unwrap().nlink(), 1);
        let root = open(&to);
        let follow = link(root.as_fd(), c"\u{fffd}/file", root.as_fd(), c"new");
        assert!(matches!(follow, Err(Errno::LOOP | Errno::NOTDIR)), "{follow:?}");
        fs::remove_dir_all(dir).unwrap();
    }

    /// A path that is too long causes an error, not a stack overflow.
    #[test]
    fn depth_has_a_bound() {
        let dir = std::env::temp_dir().join(format!("dayfly-deep-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        let name = CString::new("d".repeat(255)).unwrap();
        let mut at = OwnedFd::from(fs::File::open(&from).unwrap());
        for _ in 0..17 {
            mkdirat(&at, &name, Permissions::RWXU).unwrap();
            at = open_directory(at.as_fd(), &name).unwrap();
        }
        let open = |path: &std::path::Path| fs::File::open(path).unwrap();
        let error = copy_upper(open(&from).as_fd(), open(&to).as_fd()).unwrap_err();
        let is_meant = matches!(&error, Error::System(error) if error.errno == Errno::NAMETOOLONG);
        assert!(is_meant, "{error}");
        crate::remove_all(&CString::new(dir.to_str().unwrap()).unwrap()).unwrap();
    }
}
