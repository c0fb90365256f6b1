//! What a container has of the host for a root filesystem from layers, and how that is taken back.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;

use rootfs::ids::{Leases, Owner};
use rustix::fs::{Access, AtFlags, CWD, Mode as Permissions, mkdir, symlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sys::Context;

use crate::Error;

/// What is in a container's directory in a store besides changes: links to its directory in the state root,
/// and to its image.
const OWNER: &str = "owner";
const IMAGE: &str = "image";

/// What a container's record has of its root filesystem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LayeredRecord {
    /// Its directory in the store; empty for none.
    pub directory: String,
    /// Whether layers are attached below it for a moment.
    pub attached: bool,
    /// The image's directory; empty for none.
    pub image: String,
    /// The store's.
    pub store: String,
    /// Its range of ids: the first, and where it is from.
    pub lease: Option<(u32, String)>,
    /// Who has it.
    pub since: u64,
    pub owner: String,
}

impl LayeredRecord {
    /// Who has the range of ids.
    pub fn owner(&self) -> Owner {
        Owner { since: self.since, directory: self.owner.clone() }
    }

    /// Makes the container's directory. What a killed command for the same id left is removed.
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
        // Images are removed under the same lock: this one is there, or was gone before.
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

    /// Takes everything back that the container has of the host. Can be repeated.
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

/// Makes the directories above a path.
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
