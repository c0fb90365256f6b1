//! Device nodes and links, all below descriptors of their directories.

use core::ffi::CStr;

use plan::step::{Link, Node};
use rustix::fd::BorrowedFd;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Uid, chownat, makedev, mknodat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::root::Root;
use crate::failure::{Failure, Op};

/// Makes nodes in one directory. One that is there already (an image with a populated /dev) stays.
pub(crate) fn make(root: &Root<'_>, directory: &CStr, nodes: &[Node]) -> Result<(), Failure> {
    let directory = root.make_directories(directory)?;
    for node in nodes {
        let (major, minor) = node.device;
        let file_type = FileType::from_raw_mode(node.mode);
        let mode = Mode::from_raw_mode(node.mode & 0o7777);
        match mknodat(&directory, &node.name, file_type, mode, makedev(major, minor)) {
            Ok(()) => {}
            Err(Errno::EXIST) => continue,
            Err(errno) => return Err(Failure::new("mknodat", errno).with(node.name.to_bytes())),
        }
        if (node.uid, node.gid) != (0, 0) {
            let (uid, gid) = (Uid::from_raw(node.uid), Gid::from_raw(node.gid));
            chownat(&directory, &node.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .op("fchownat")?;
        }
    }
    Ok(())
}

/// Makes symbolic links in one directory. With `replace`, what is there goes; otherwise it stays.
pub(crate) fn link(
    root: &Root<'_>,
    proc: BorrowedFd<'_>,
    directory: &CStr,
    links: &[Link],
) -> Result<(), Failure> {
    let directory = root.make_directories(directory)?;
    for Link { name, text, replace, only_if } in links {
        if let Some(wanted) = only_if
            && statat(proc, wanted, AtFlags::empty()).is_err()
        {
            continue;
        }
        match symlinkat(text, &directory, name) {
            Err(Errno::EXIST) if *replace => {
                unlinkat(&directory, name, AtFlags::empty()).op("unlinkat")?;
                symlinkat(text, &directory, name).op("symlinkat")?;
            }
            // Something of that name is the image's business.
            Err(Errno::EXIST) => {}
            result => result.op("symlinkat")?,
        }
    }
    Ok(())
}
