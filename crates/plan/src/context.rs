//! What the parts of the compiler read.

use alloc::string::String;
use spec::mount_options::MountOptions;
use spec::{Linux, Mount};

use crate::birth::Birth;
use crate::caller::Caller;
use crate::namespaces::Namespaces;
use crate::path::clean;

/// What the parts of the compiler read.
pub struct Context<'a, 's> {
    pub(crate) bundle: &'a str,
    pub(crate) rootfs: String,
    pub(crate) layers: Option<&'a rootfs::Recipe>,
    pub(crate) linux: &'a Linux<'s>,
    pub(crate) mounts: &'a [Mount<'s>],
    pub(crate) namespaces: Namespaces,
    pub(crate) birth: Birth,
    pub(crate) cgroup: Option<&'a cgroup::Location>,
    pub(crate) caller: &'a Caller,
    /// Whether the start is to happen on CPUs of its own.
    pub(crate) has_start_cpus: bool,
}

impl Context<'_, '_> {
    /// Whether a path has to wait for the network namespace: it lies at or below a sysfs, which shows
    /// the one of whoever mounts it.
    pub(crate) fn shows_network(&self, path: &str) -> bool {
        if !self.birth.parallel_network {
            return false;
        }
        let place = clean(path);
        self.mounts.iter().filter(|mount| mount.kind == "sysfs").any(|sysfs| {
            let rest = place.strip_prefix(&*clean(&sysfs.destination));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
    /// Whether something is bound over /dev, which then needs no nodes and links of ours.
    pub(crate) fn dev_is_bound(&self) -> bool {
        self.mounts.iter().any(|mount| {
            let options = MountOptions::parse(&mount.options);
            clean(&mount.destination) == "/dev"
                && (options.bind.is_some() || mount.kind == "bind")
                && !options.remount
        })
    }

    /// Whether some mount goes to `path`.
    pub(crate) fn is_mounted(&self, path: &str) -> bool {
        self.mounts.iter().any(|mount| clean(&mount.destination) == path)
    }
}
