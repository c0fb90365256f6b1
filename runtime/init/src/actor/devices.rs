//! Creates device nodes and symbolic links, all of them below descriptors of their directories.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Uid, chownat, makedev, mknodat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::root::Root;
use crate::failure::{Failure, Op};
use crate::step::{Link, Node};

/// Creates nodes in one directory. Existing nodes (an image with a populated /dev) stay. `open` is the directory's
/// descriptor, if init already has one.
pub(crate) fn make(
    root: &Root<'_>,
    path: &CStr,
    open: Option<BorrowedFd<'_>>,
    nodes: &[Node<'_>],
) -> Result<(), Failure> {
    let made;
    let directory = match open {
        Some(directory) => directory,
        None => {
            made = root.make_directories(path)?;
            made.as_fd()
        }
    };
    for node in nodes {
        let result = match make_node(directory, node.name, node) {
            Err(Errno::EXIST) => match is_link(directory, node.name) {
                true => make_behind_link(root, path, node),
                false => continue,
            },
            result => result.op("mknodat"),
        };
        result.map_err(|failure| failure.with(node.name.to_bytes()))?;
    }
    Ok(())
}

fn is_link(directory: BorrowedFd<'_>, name: &CStr) -> bool {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Creates a node at the target of a dangling link that has the node's name, like runc.
// Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
#[inline(never)]
fn make_behind_link(root: &Root<'_>, directory: &CStr, node: &Node<'_>) -> Result<(), Failure> {
    let (directory, name) = (directory.to_bytes(), node.name.to_bytes_with_nul());
    let mut path = [0; 4096];
    let slash = directory.len();
    let end = slash + 1 + name.len();
    let too_long = || Failure::new("path", Errno::NAMETOOLONG);
    for (to, from) in path.iter_mut().zip(directory.iter().chain(b"/").chain(name)) {
        *to = *from;
    }
    let path = path.get(..end).ok_or_else(too_long)?;
    let path = CStr::from_bytes_with_nul(path).map_err(|_| too_long())?;
    root.make_behind_link(path, |directory, name| make_node(directory, name, node))
}

/// Creates a node with its owner; the umask must be 0.
///
/// # Errors
/// The errors of mknodat(2) and fchownat(2).
pub fn make_node(directory: BorrowedFd<'_>, name: &CStr, node: &Node<'_>) -> Result<(), Errno> {
    let (major, minor) = node.device;
    let file_type = FileType::from_raw_mode(node.mode);
    let mode = Mode::from_raw_mode(node.mode & 0o7777);
    mknodat(directory, name, file_type, mode, makedev(major, minor))?;
    if (node.uid, node.gid) == (0, 0) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(node.uid), Gid::from_raw(node.gid));
    chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// Creates symbolic links in one directory. With `replace`, existing files are removed; otherwise they stay. `open` has
/// the same meaning as in [`make`].
pub(crate) fn link(
    root: &Root<'_>,
    proc: BorrowedFd<'_>,
    path: &CStr,
    open: Option<BorrowedFd<'_>>,
    links: &[Link<'_>],
) -> Result<(), Failure> {
    let made;
    let directory = match open {
        Some(directory) => directory,
        None => {
            made = root.make_directories(path)?;
            made.as_fd()
        }
    };
    for &Link { name, text, replace, only_if } in links {
        if let Some(wanted) = only_if
            && statat(proc, wanted, AtFlags::empty()).is_err()
        {
            continue;
        }
        match symlinkat(text, directory, name) {
            Err(Errno::EXIST) if replace => {
                unlinkat(directory, name, AtFlags::empty()).op("unlinkat")?;
                symlinkat(text, directory, name).op("symlinkat")?;
            }
            // Existing files of the image stay.
            Err(Errno::EXIST) => {}
            result => result.op("symlinkat")?,
        }
    }
    Ok(())
}
