//! The cgroup hierarchies of this host, found without reading the mount table.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rustix::fs::{CWD, Dir, FileType, statfs};
use sys::Context;
use sys::fs::open_dir;

use crate::{Controllers, Error};

/// The directory under which distributions and systemd mount the hierarchies.
pub const MOUNT_ROOT: &str = "/sys/fs/cgroup";

const CGROUP2_SUPER_MAGIC: u32 = 0x6367_7270;
const CGROUP_SUPER_MAGIC: u32 = 0x0027_e0eb;

/// The cgroup hierarchies of a host. This is plain data, so tests can construct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    /// The directory under which all hierarchies are mounted.
    pub root: String,
    /// The mount point of cgroup v2: `root` itself on a unified host, or a directory below it on a hybrid host.
    pub unified: Option<String>,
    /// The cgroup v1 hierarchies; empty on a unified host.
    pub legacy: Vec<Hierarchy>,
}

/// A mounted cgroup v1 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hierarchy {
    /// The hierarchy's controllers.
    pub controllers: Controllers,
    /// The hierarchy's mount point.
    pub mount: String,
}

impl Hierarchies {
    /// Detects the hierarchies at [`MOUNT_ROOT`] with one statfs(2) on a unified host, and one per directory entry on
    /// other hosts.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if no hierarchy is mounted; failing system calls.
    pub fn detect() -> Result<Self, Error> {
        Self::detect_at(MOUNT_ROOT)
    }

    /// Detects the hierarchies like [`Hierarchies::detect`], but under the directory `root`.
    ///
    /// # Errors
    /// See [`Hierarchies::detect`].
    pub fn detect_at(root: &str) -> Result<Self, Error> {
        if kind(root)? == CGROUP2_SUPER_MAGIC {
            return Ok(Self {
                root: root.to_string(),
                unified: Some(root.to_string()),
                legacy: Vec::new(),
            });
        }
        let mut hierarchies = Self { root: root.to_string(), unified: None, legacy: Vec::new() };
        let fd = open_dir(CWD, root).context("open", root)?;
        for entry in Dir::new(fd).context("read", root)? {
            let entry = entry.context("read", root)?;
            // Controllers that are mounted together share one directory such as `cpu,cpuacct`. The symbolic links to
            // that directory are skipped.
            if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                continue;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            hierarchies.consider(name)?;
        }
        hierarchies.legacy.sort_unstable();
        if hierarchies.unified.is_none() && hierarchies.legacy.is_empty() {
            return Err(Error::NotMounted(root.to_string()));
        }
        Ok(hierarchies)
    }

    /// Adds the subdirectory `name` of the root if a hierarchy is mounted there.
    fn consider(&mut self, name: &str) -> Result<(), Error> {
        let mount = format!("{}/{name}", self.root);
        if name == "unified" {
            if kind(&mount)? == CGROUP2_SUPER_MAGIC {
                self.unified = Some(mount);
            }
            return Ok(());
        }
        let controllers = Controllers::from_list(name);
        if !controllers.is_empty() && kind(&mount)? == CGROUP_SUPER_MAGIC {
            self.legacy.push(Hierarchy { controllers, mount });
        }
        Ok(())
    }

    /// Returns whether the host has cgroup v2 only.
    pub fn is_unified(&self) -> bool {
        self.legacy.is_empty()
    }
}

/// Returns the magic number of the file system at `path`.
fn kind(path: &str) -> Result<u32, Error> {
    Ok(sys::fs::magic(&statfs(path).context("statfs", path)?))
}
