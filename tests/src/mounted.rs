//! File systems that a case mounts: full ones, small ones, read-only ones.

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

/// A mount in the suite's own mount namespace; unmounted when dropped.
pub struct Mounted {
    path: PathBuf,
}

impl Mounted {
    /// Mounts a tmpfs on `path`, creating the directory if it is missing.
    ///
    /// # Panics
    /// When the tmpfs can't be mounted.
    #[must_use]
    pub fn tmpfs(path: &Path, options: &str) -> Self {
        fs::create_dir_all(path).expect("make directory");
        let options = CString::new(options).expect("options");
        mount("tmpfs", path, "tmpfs", MountFlags::empty(), options.as_c_str()).expect("mount");
        Self { path: path.to_owned() }
    }

    /// Makes the directory `path` read-only.
    ///
    /// # Panics
    /// When the mount fails.
    #[must_use]
    pub fn read_only(path: &Path) -> Self {
        mount_bind(path, path).expect("bind");
        mount_remount(path, MountFlags::BIND | MountFlags::RDONLY, c"").expect("remount");
        Self { path: path.to_owned() }
    }

    /// Returns the mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes until the file system is full.
    pub fn fill(&self) {
        let _ = fs::write(self.path.join("filling"), vec![0; 1 << 20]);
    }

    /// Removes the file that [`Mounted::fill`] wrote.
    ///
    /// # Panics
    /// When the file does not exist.
    pub fn make_room(&self) {
        fs::remove_file(self.path.join("filling")).expect("remove");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}
