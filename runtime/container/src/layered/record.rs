//! The part of a container's record that names the host resources of a root filesystem from layers. Also creates and
//! releases these resources.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;

use rootfs::ids::{Leases, Owner};
use rustix::fs::{Access, AtFlags, CWD, Mode as Permissions, mkdir, symlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sys::Context;

use crate::Error;

/// The names of two symbolic links in a container's directory in a store: `owner` points to the container's directory
/// in the state root, `image` to the container's image.
const OWNER: &str = "owner";
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
    pub fn make_directory(&self) -> Result<(), sys::Error> {
        if self.directory.is_empty() {
            return Ok(());
        }
        let path = &*self.directory;
        let make = || mkdir(path, Permissions::RWXU);
        match make() {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                make_parents(path)?;
                make().context("mkdir", path)?;
            }
            Err(Errno::EXIST) => {
                let c_path = CString::new(path).unwrap_or_default();
                rootfs::unmount_below(&c_path)?;
                rootfs::remove_all(&c_path)?;
                make().context("mkdir", path)?;
            }
            Err(errno) => return Err(sys::Error::new("mkdir", path, errno)),
        }
        let link = |name: &str, target: &str| {
            symlinkat(target, CWD, format!("{path}/{name}").as_str())
                .context("symlink", format!("{path}/{name}"))
        };
        link(OWNER, &self.owner)?;
        if self.image.is_empty() {
            return Ok(());
        }
        // Images are removed under the same lock. The check below therefore finds the image missing only if it was
        // removed before the link was created.
        let _lock = rootfs::image::lock(&self.store)?;
        link(IMAGE, &self.image)?;
        rustix::fs::accessat(
            CWD,
            format!("{}/config.json", self.image).as_str(),
            Access::EXISTS,
            AtFlags::empty(),
        )
        .context("find image", &self.image)
    }

    /// Releases all resources on the host that the root filesystem uses. Can be repeated.
    pub fn release(&self) -> Result<(), Error> {
        if !self.directory.is_empty() {
            let path = CString::new(&*self.directory).unwrap_or_default();
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

/// Creates the parents of a path.
fn make_parents(path: &str) -> Result<(), sys::Error> {
    for (end, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
        let parent = path.get(..end).unwrap_or_default();
        match mkdir(parent, Permissions::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(sys::Error::new("mkdir", parent, errno)),
        }
    }
    Ok(())
}
