//! The changes of a container to a root filesystem from layers. They are removed together with the
//! container. Therefore a checkpoint contains a copy of the changes, and a restore copies them into
//! the new upper layer.

use alloc::format;
use alloc::string::String;

use rootfs::{Extent, Mode, Upper, copy_upper};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Mode as Permissions, accessat, mkdirat, renameat};
use rustix::io::Errno;
use sys::Context;

use super::c_string;
use super::images::{Directory, Sizes};
use crate::identity::has_exited;
use crate::layered::Prepared;
use crate::layered::record::LayeredRecord;
use crate::{Container, Error, Unless as _};

/// The name of the complete copy in the directory of images, and the name of a copy that is not
/// complete yet.
const CHANGES: &str = "changes";
const INCOMPLETE: &str = "changes.incomplete";
/// The upper layer's name in the container's directory of the store.
const UPPER: &str = "upper";

/// The upper layer of a running container.
#[derive(Debug)]
pub(super) struct Changes {
    upper: OwnedFd,
    copy: OwnedFd,
}

impl Changes {
    /// Removes the changes of an earlier checkpoint. If the container has an upper layer on disk,
    /// prepares a copy; the checkpoint is then incomplete until [`Self::save`] has been called.
    pub fn begin(container: &Container, images: &Directory) -> Result<Option<Self>, Error> {
        remove(images, CHANGES)?;
        remove(images, INCOMPLETE)?;
        let Some(upper) = container.record.layered.as_deref().and_then(upper_of) else {
            return Ok(None);
        };
        let upper = sys::fs::open_dir(CWD, upper.as_str()).unless(Errno::NOENT);
        // If it is missing, the changes are in memory, or the root filesystem is a copy of its layers.
        let Some(upper) = upper.context("open", "upper layer")? else { return Ok(None) };
        let copy = make(images.fd.as_fd(), INCOMPLETE)?;
        Ok(Some(Self { upper, copy }))
    }

    /// Copies the changes. The container's processes must be stopped, and must stay stopped until
    /// the process of the pidfd `criu` has exited.
    pub fn save(&self, images: &Directory, criu: &OwnedFd) -> Result<(), Error> {
        sys::signal::ignore_file_size(true);
        copy_upper(self.upper.as_fd(), self.copy.as_fd())?;
        if has_exited(criu) {
            return Err(Error::text(
                "criu has ended while the changes of the root filesystem were copied",
            ));
        }
        Ok(renameat(&images.fd, INCOMPLETE, &images.fd, CHANGES).context("rename", INCOMPLETE)?)
    }
}

/// Removes the incomplete copy of a failed checkpoint.
pub(super) fn discard(images: &Directory) -> Result<(), Error> {
    remove(images, INCOMPLETE)
}

fn remove(images: &Directory, name: &str) -> Result<(), Error> {
    Ok(rootfs::remove_all(&c_string(&format!("{}/{name}", images.path))?)?)
}

fn upper_of(layered: &LayeredRecord) -> Option<String> {
    let directory = Some(layered.directory.as_str()).filter(|path| !path.is_empty())?;
    Some(format!("{directory}/{UPPER}"))
}

/// Opens the copy, if the checkpoint has one.
fn copy_in(images: &Directory) -> Result<Option<OwnedFd>, sys::Error> {
    let copy = sys::fs::open_dir(&images.fd, CHANGES).unless(Errno::NOENT);
    copy.context("open", images.object(CHANGES))
}

/// Returns the extent of the copied changes as a number of names and a number of bytes, or `None` if the checkpoint has
/// no copy of changes.
pub(super) fn extent(images: &Directory) -> Result<Option<(u64, u64)>, Error> {
    let Some(copy) = copy_in(images)? else { return Ok(None) };
    let Extent { names, bytes } = Extent::of(copy.as_fd())?;
    Ok(Some((names, bytes)))
}

/// Refuses a checkpoint whose changes are incomplete, or cannot be put into the root filesystem.
pub(super) fn check(
    images: &Directory,
    prepared: Option<&Prepared>,
    sizes: Option<&Sizes>,
) -> Result<(), Error> {
    let has = |name| accessat(&images.fd, name, Access::EXISTS, AtFlags::empty()).is_ok();
    if has(INCOMPLETE) {
        return Err(Error::Text(format!(
            "{} has no checkpoint: the changes of the root filesystem are incomplete",
            images.path
        )));
    }
    if let Some(sizes) = sizes {
        let (saved, found) = (sizes.changes, extent(images)?);
        if found != saved {
            let shown = |extent: Option<(u64, u64)>| match extent {
                Some((names, bytes)) => format!("{names} names and {bytes} bytes"),
                None => String::from("nothing"),
            };
            let why = format!("{} instead of {}", shown(found), shown(saved));
            return Err(images.damaged(CHANGES, why));
        }
    }
    let takes = |prepared: &Prepared| {
        prepared.recipe.upper == Upper::Directory && prepared.recipe.mode != Mode::Copy
    };
    if has(CHANGES) && !prepared.is_some_and(takes) {
        return Err(Error::text(
            "the checkpoint has changes of a root filesystem from layers: restore it with --layers, and \
             neither with --ephemeral nor with --rootfs-mode copy",
        ));
    }
    Ok(())
}

/// Makes the upper layer of a restored container from the copy, if the checkpoint has one. The container's directory in
/// the store exists and is empty.
pub(super) fn put(images: &Directory, record: &LayeredRecord) -> Result<(), Error> {
    let Some(copy) = copy_in(images)? else { return Ok(()) };
    let store = sys::fs::open_dir(CWD, record.directory.as_str());
    let store = store.context("open", &record.directory)?;
    let upper = make(store.as_fd(), UPPER)?;
    Ok(copy_upper(copy.as_fd(), upper.as_fd())?)
}

/// Makes and opens a directory.
fn make(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Error> {
    mkdirat(at, name, Permissions::RWXU).context("mkdir", name)?;
    Ok(sys::fs::open_dir(at, name).context("open", name)?)
}
