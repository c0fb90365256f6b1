//! The upper layer of a root filesystem: a directory or a tmpfs.

use alloc::ffi::CString;
use alloc::format;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode as Permissions, chmodat, chownat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use sys::Context;
use sys::mount::MountAttrFlags;

use crate::files::{self, Etc};
use crate::layers::{open_directory, open_layer};
use crate::options::{Recipe, Upper};
use crate::remove::make_directory;
use crate::top::Root;

/// The directories of the upper layer.
#[derive(Debug)]
pub(crate) struct Changes {
    pub upper: OwnedFd,
    pub work: OwnedFd,
    /// The detached tmpfs that contains both directories; `None` if they are not on a new tmpfs.
    tmpfs: Option<OwnedFd>,
}

impl Changes {
    pub fn tmpfs(&self) -> Option<BorrowedFd<'_>> {
        self.tmpfs.as_ref().map(AsFd::as_fd)
    }
}

/// Creates the directories `upper` and `work`, and writes the recipe's files to `upper`. Directories that the recipe
/// gives are only opened. Returns `None` for a root filesystem without an upper layer.
pub(crate) fn make(recipe: &Recipe, root: &Root, etc: Etc) -> Result<Option<Changes>, sys::Error> {
    let place = recipe.directory.to_string_lossy();
    let (at, tmpfs) = match &recipe.upper {
        Upper::None => return Ok(None),
        Upper::Given { upper, work } => {
            let open =
                |path: &CString| open_directory(path).context("open", path.to_string_lossy());
            return Ok(Some(Changes { upper: open(upper)?, work: open(work)?, tmpfs: None }));
        }
        Upper::Directory => (open_directory(&recipe.directory), None),
        Upper::Tmpfs { size } => {
            let tmpfs = new_tmpfs(*size)?;
            (rustix::io::fcntl_dupfd_cloexec(&tmpfs, 3), Some(tmpfs))
        }
    };
    let at = at.context("open", &place)?;
    for (name, mode) in [(c"upper", 0o755), (c"work", 0o700)] {
        let object = format_args!("{place}/{}", name.to_string_lossy());
        make_directory(&at, name, Permissions::from_raw_mode(mode)).context("mkdir", object)?;
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    chownat(&at, c"upper", Some(root.uid), Some(root.gid), flags).context("chown", &place)?;
    chmodat(&at, c"upper", root.mode, AtFlags::empty()).context("chmod", &place)?;
    let open = |name| open_layer(at.as_fd(), name).context("open", &place);
    let upper = open(c"upper")?;
    files::put(recipe, upper.as_fd(), etc, *root)?;
    Ok(Some(Changes { upper, work: open(c"work")?, tmpfs }))
}

/// Returns an empty, detached tmpfs.
pub(crate) fn new_tmpfs(size: Option<u64>) -> Result<OwnedFd, sys::Error> {
    let make = || {
        let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, c"source", c"dayfly")?;
        fsconfig_set_string(&context, c"mode", c"0700")?;
        if let Some(size) = size {
            fsconfig_set_string(&context, c"size", format!("{size}"))?;
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    make().context("mount", "tmpfs for changes")
}
