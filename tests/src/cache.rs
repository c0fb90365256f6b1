//! A cache of its own for a case that looks into dayfly's cache.

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// The directory of dayfly's cache.
pub const CACHE: &str = "/run/dayfly-cache";

/// An empty cache over the host's, in the mount namespace of the suite. Other commands of the host keep using the
/// host's cache: they have other mount namespaces. No other case may run meanwhile.
#[derive(Debug)]
pub struct OwnCache(());

impl OwnCache {
    /// Covers the host's cache until the value is dropped.
    ///
    /// # Panics
    /// When the cache can't be covered.
    #[must_use]
    pub fn begin() -> Self {
        fs::create_dir_all(CACHE).expect("make cache");
        fs::set_permissions(CACHE, Permissions::from_mode(0o700)).expect("chmod cache");
        mount("none", CACHE, "tmpfs", MountFlags::empty(), c"mode=0700").expect("cover cache");
        mount_change(CACHE, MountPropagationFlags::PRIVATE).expect("private");
        Self(())
    }
}

impl Drop for OwnCache {
    fn drop(&mut self) {
        let _ = unmount(CACHE, UnmountFlags::DETACH);
    }
}
