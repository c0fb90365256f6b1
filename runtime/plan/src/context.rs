//! The input of the compiler's parts.

use alloc::string::String;
use spec::mount_options::MountOptions;
use spec::{InRoot, Linux, Mount};
use sys::clone::CloneFlags;

use crate::Kernel;
use crate::birth::Birth;
use crate::caller::Caller;
use crate::namespaces::Namespaces;
use crate::path::{below, is_at_or_below};
use crate::request::GivenRoot;

/// The input of the compiler's parts.
pub struct Context<'a, 's> {
    pub(crate) bundle: &'a str,
    /// The path at which init attaches the root in its mount namespace, if that begins as a copy of the host's.
    pub(crate) rootfs: String,
    /// The path on the host by which the configuration names the root: that of `root.path`. Only a source of a bind mount
    /// at or below this path can be in the root. Not `rootfs`, which can be `/` or the bundle ([`GivenRoot::place`]).
    pub(crate) named_root: String,
    pub(crate) given: Option<GivenRoot<'a>>,
    pub(crate) linux: &'a Linux<'s>,
    pub(crate) mounts: &'a [Mount<'s>],
    pub(crate) namespaces: Namespaces,
    pub(crate) birth: Birth,
    pub(crate) cgroup: Option<&'a cgroup::Location>,
    pub(crate) caller: &'a Caller,
    pub(crate) kernel: &'a Kernel,
    /// See [`Request`](crate::Request).
    pub(crate) foreign_network: bool,
    /// Whether the start runs on CPUs of its own (`--start-cpus`).
    pub(crate) has_start_cpus: bool,
}

impl<'s> Context<'_, 's> {
    /// Returns the mounts that the configuration has before `mount`, which is one of them.
    pub(crate) fn before(&self, mount: &Mount<'_>) -> impl Iterator<Item = &Mount<'s>> {
        self.mounts.iter().take_while(move |other| !core::ptr::eq(*other, mount))
    }

    /// Returns the path in the root, without the slash at its end, of a clean path of the host that lies in the root.
    ///
    /// A root that is given has no path on the host but the one that the configuration names. If that is `/`, the given
    /// root is not there: `/` is the host's.
    pub(crate) fn inside_root<'p>(&self, path: &'p str) -> Option<&'p str> {
        let is_elsewhere = self.given.is_some() && self.named_root == "/";
        below(path, &self.named_root).filter(|_| !is_elsewhere)
    }

    /// Returns whether a path must wait for the network namespace, because it lies at or below a sysfs. A sysfs shows
    /// the network namespace of the process that mounts it.
    pub(crate) fn shows_network(&self, path: &InRoot<'_>) -> bool {
        self.has_sysfs(|sysfs| is_at_or_below(path, sysfs))
    }

    /// Returns whether an operation on a path must wait for the network namespace, because the path lies at, above or
    /// below a sysfs (`masks-after-mounts`, `read-only-last`).
    pub(crate) fn covers_network(&self, path: &InRoot<'_>) -> bool {
        self.has_sysfs(|sysfs| is_at_or_below(path, sysfs) || is_at_or_below(sysfs, path))
    }

    /// Returns whether there is a sysfs whose destination matches `wanted` and whose mount waits for the network
    /// namespace.
    fn has_sysfs(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let mut kinds = self.mounts.iter().filter(|mount| mount.kind == "sysfs");
        self.birth.parallel_network && kinds.any(|sysfs| wanted(&sysfs.destination))
    }

    /// Returns whether the container's user namespace owns its network namespace: only then may the container mount a
    /// sysfs.
    pub(crate) fn owns_network(&self) -> bool {
        let new = self.namespaces.new;
        if new.contains(CloneFlags::NEWNET) {
            return true;
        }
        let is_above = !self.namespaces.user() && !self.caller.is_confined();
        is_above || !(new.contains(CloneFlags::NEWUSER) || self.foreign_network)
    }

    /// Returns whether /dev is a bind mount. In that case dayfly creates no nodes and links in it.
    pub(crate) fn dev_is_bound(&self) -> bool {
        self.mounts.iter().any(|mount| {
            let options = MountOptions::parse(&mount.options);
            mount.destination == "/dev"
                && (options.bind.is_some() || mount.kind == "bind")
                && !options.remount
        })
    }

    /// Returns whether some mount has the destination `path`.
    pub(crate) fn is_mounted(&self, path: &str) -> bool {
        self.mounts.iter().any(|mount| mount.destination == *path)
    }
}
