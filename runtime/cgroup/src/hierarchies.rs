//! The cgroup hierarchies of this host, found without reading the mount table.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat, statfs};
use sys::Context;

use crate::{Controllers, Error};

/// The directory under which distributions and systemd mount the hierarchies.
pub const MOUNT_ROOT: &str = "/sys/fs/cgroup";

const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
const CGROUP_SUPER_MAGIC: u64 = 0x0027_e0eb;

/// The cgroup hierarchies of a host. Plain data, which tests can construct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    /// The directory under which everything is mounted.
    pub root: String,
    /// The mount point of cgroup v2: `root` itself on a unified host, a directory below it on a hybrid one.
    pub unified: Option<String>,
    /// The cgroup v1 hierarchies; none on a unified host.
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
    /// Detects the hierarchies at [`MOUNT_ROOT`]: one statfs(2) on a unified host, and one per entry on others.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if there is no hierarchy; failing system calls.
    pub fn detect() -> Result<Self, Error> {
        Self::detect_at(MOUNT_ROOT)
    }

    /// Detects the hierarchies like [`Hierarchies::detect`], at another root.
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
        let fd =
            openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .context("open", root)?;
        for entry in Dir::new(fd).context("read", root)? {
            let entry = entry.context("read", root)?;
            // Co-mounted controllers share one directory, `cpu,cpuacct`, with symbolic links to it.
            if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                continue;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            hierarchies.consider(name)?;
        }
        hierarchies.legacy.sort_unstable();
        if hierarchies.unified.is_none() && hierarchies.legacy.is_empty() {
            return Err(Error::NotMounted { root: root.to_string() });
        }
        Ok(hierarchies)
    }

    /// Adds the directory `name` of the root if a hierarchy is mounted on it.
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

    /// Returns whether cgroup v2 has every controller.
    pub fn is_unified(&self) -> bool {
        self.legacy.is_empty()
    }
}

/// Returns the magic number of the file system at `path`.
fn kind(path: &str) -> Result<u64, Error> {
    // f_type is signed or unsigned by architecture; the magic numbers fit either way.
    Ok(statfs(path).context("statfs", path)?.f_type as u64 & u64::from(u32::MAX))
}
