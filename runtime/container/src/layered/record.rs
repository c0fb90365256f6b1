//! The part of a container's record that names the host resources of a root filesystem from layers. Also creates and
//! releases these resources.

use alloc::format;
use alloc::string::String;

use rootfs::home;
use rootfs::ids::{Leases, Owner};
use rustix::fs::{Access, AtFlags, CWD, Mode as Permissions, mkdir, symlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sys::Context;
use sys::fs::c_path;

use crate::Error;
use crate::identity::Identity;

/// A symbolic link in a container's directory in a store, which points to the container's image. `rootfs::home` has the
/// other links.
const IMAGE: &str = "image";

/// The part of a container's record about its root filesystem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LayeredRecord {
    /// The container's directory in the store; empty if it has none.
    pub directory: String,
    /// Whether layers are temporarily attached below `directory`.
    pub attached: bool,
    /// The image's directory; empty if the container has no image.
    pub image: String,
    /// The store's path.
    pub store: String,
    /// The container's id range: the first id, and the directory that records the range.
    pub lease: Option<(u32, String)>,
    /// The time at which the id range was taken. This time, together with the directory in `owner`, identifies the
    /// owner of the range.
    pub since: u64,
    pub owner: String,
}

impl LayeredRecord {
    /// Returns the owner of the id range.
    pub fn owner(&self) -> Owner {
        Owner { since: self.since, directory: self.owner.clone() }
    }

    /// Creates the container's directory in the store. First removes a directory that a killed
    /// command left for the same id.
    ///
    /// # Errors
    /// If the directory belongs to a container with the same id in another state root or mount namespace.
    pub fn make_directory(&self) -> Result<(), Error> {
        if self.directory.is_empty() {
            return Ok(());
        }
        let path = &*self.directory;
        let make = || mkdir(path, Permissions::RWXU);
        let failed = |path: &str, errno| match errno {
            Errno::ROFS => Error::Text(format!(
                "mkdir {path}: read-only file system; --ephemeral keeps changes in memory"
            )),
            errno => sys::Error::new("mkdir", path, errno).into(),
        };
        match make() {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                sys::fs::make_directories(parent, 0o700)
                    .map_err(|(part, errno)| failed(part, errno))?;
                make().context("mkdir", path)?;
            }
            Err(Errno::EXIST) => {
                home::remove_left(path, &self.owner())?;
                make().context("mkdir", path)?;
            }
            Err(errno) => return Err(failed(path, errno)),
        }
        home::claim(path, &self.owner())?;
        if self.image.is_empty() {
            return Ok(());
        }
        // Images are removed under the same lock. The check below therefore finds the image missing only if it was
        // removed before the link was created.
        let _lock = rootfs::image::lock(&self.store)?;
        let link = format!("{path}/{IMAGE}");
        symlinkat(&*self.image, CWD, link.as_str()).context("symlink", link)?;
        rustix::fs::accessat(
            CWD,
            format!("{}/config.json", self.image).as_str(),
            Access::EXISTS,
            AtFlags::empty(),
        )
        .context("find image", &self.image)?;
        Ok(())
    }

    /// Writes the container's init into its directory in the store, so that the directory is kept as long as init
    /// lives.
    pub fn add_process(&self, identity: Identity) -> Result<(), sys::Error> {
        match self.directory.is_empty() || self.store.is_empty() {
            true => Ok(()),
            false => home::add_process(&self.directory, identity),
        }
    }

    /// Releases all resources on the host that the root filesystem uses. Can be repeated.
    pub fn release(&self) -> Result<(), Error> {
        // A container with the same id in another state root or mount namespace may have made the directory.
        if !self.directory.is_empty() && home::is_of(&self.directory, &self.owner())? {
            let path = c_path(&*self.directory).context("find", &self.directory)?;
            if self.attached {
                rootfs::unmount_below(&path)?;
            }
            rootfs::remove_all(&path)?;
        }
        if let Some((first, leases)) = &self.lease {
            Leases::open(leases)?.give_back(*first, &self.owner())?;
        }
        Ok(())
    }
}
