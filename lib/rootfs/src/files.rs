//! The files in /etc that dayfly creates for a container. They are in the writable layer, so they need no mounts, the
//! container's program can replace them, and they are removed with the layer. Their directory gets the owner and the
//! mode of /etc in the layers. Three bind mounts would need three detached trees, three mount points and three lines of
//! the container's mount table, and the program could not replace the files by rename(2).

use alloc::format;
use alloc::string::String;
use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Mode as Permissions, OFlags, Stat, chmodat, chownat, fchmod, fchown,
    mkdirat, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use sys::Context;

use crate::look::is_whiteout;
use crate::options::{EtcFile, Recipe};
use crate::remove;
use crate::top::Root;

/// The directory of these files.
pub(crate) const ETC: &CStr = c"etc";

/// The state of /etc in the layers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Etc {
    /// No layer so far contains /etc.
    #[default]
    Missing,
    /// /etc is a directory with this owner and mode.
    Directory(Root),
    /// A layer has removed /etc.
    Removed,
    /// /etc is a link or a file, so no files are added.
    Unfit,
}

impl Etc {
    /// Returns the state after also examining the next lower layer, in which `stat` describes /etc.
    pub fn after(self, stat: Option<&Stat>) -> Self {
        match (self, stat) {
            (Self::Missing, Some(stat)) if is_whiteout(stat) => Self::Removed,
            (Self::Missing, Some(stat)) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Self::Directory(Root::from_stat(stat)),
                _ => Self::Unfit,
            },
            (known, _) => known,
        }
    }
}

/// Creates /etc in the empty directory `upper`, and writes a recipe's files to it. The new /etc gets the owner and mode
/// of /etc in the layers. If the layers have no /etc, the new /etc gets the owner of `top`, the root directory, and
/// mode 0755. If /etc in the layers is a link or a file, nothing is written.
pub(crate) fn put(
    recipe: &Recipe,
    upper: BorrowedFd<'_>,
    etc: Etc,
    top: Root,
) -> Result<(), sys::Error> {
    if recipe.files.is_empty() {
        return Ok(());
    }
    let (owner, mode) = match etc {
        Etc::Unfit => return Ok(()),
        Etc::Directory(like) => (like, like.mode),
        Etc::Missing | Etc::Removed => (top, Permissions::from_raw_mode(0o755)),
    };
    let make = || {
        mkdirat(upper, ETC, Permissions::RWXU)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        chownat(upper, ETC, Some(owner.uid), Some(owner.gid), flags)?;
        chmodat(upper, ETC, mode, AtFlags::empty())?;
        remove::open_directory(upper, ETC)
    };
    let directory = make().context("make", "/etc of the container")?;
    recipe.files.iter().try_for_each(|file| write(recipe, directory.as_fd(), file))
}

/// Writes a recipe's files to a copy of all layers, replacing existing files.
pub(crate) fn replace(recipe: &Recipe, root: BorrowedFd<'_>) -> Result<(), sys::Error> {
    if recipe.files.is_empty() {
        return Ok(());
    }
    let directory = match remove::open_directory(root, ETC) {
        Err(Errno::NOENT) => mkdirat(root, ETC, Permissions::from_raw_mode(0o755))
            .and_then(|()| remove::open_directory(root, ETC))
            .context("make", "/etc of the container")?,
        // /etc is a link or a file.
        Err(Errno::LOOP | Errno::NOTDIR) => return Ok(()),
        result => result.context("open", "/etc of the container")?,
    };
    for file in &recipe.files {
        match unlinkat(&directory, &*file.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => write(recipe, directory.as_fd(), file)?,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(sys::Error::new("unlink", object(file), errno)),
        }
    }
    Ok(())
}

fn write(recipe: &Recipe, directory: BorrowedFd<'_>, file: &EtcFile) -> Result<(), sys::Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make = || -> Result<OwnedFd, Errno> {
        let made = openat(directory, &*file.name, flags, Permissions::from_raw_mode(0o600))?;
        sys::stdio::write_all(&made, file.text.as_bytes())?;
        if let Some((uid, gid)) = recipe.root {
            fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        // fchmod(2) is not affected by the caller's umask.
        fchmod(&made, Permissions::from_raw_mode(0o644))?;
        Ok(made)
    };
    make().map(drop).context("write", object(file))
}

fn object(file: &EtcFile) -> String {
    format!("/etc/{} of the container", file.name.to_string_lossy())
}
