//! The input of the compiler's parts.

use alloc::string::String;

use cgroup::systemd::{Instance, Unit};
use spec::mount_options::MountOptions;
use spec::{Capabilities, InRoot, Linux, Mount, Process, Spec};
use sys::clone::CloneFlags;
use sys::mount::attr;

use crate::birth::Birth;
use crate::fast_path::FastPaths;
use crate::filter::compile_seccomp;
use crate::namespaces::Namespaces;
use crate::path::{absolute, below, is_at_or_below};
use crate::request::{ProgramStart, Request};
use crate::{Error, process};

/// The input of the compiler's parts.
pub struct Context<'a, 's> {
    pub(crate) spec: &'a Spec<'s>,
    pub(crate) request: &'a Request<'a>,
    pub(crate) process: &'a Process<'s>,
    pub(crate) linux: &'a Linux<'s>,
    pub(crate) namespaces: Namespaces,
    pub(crate) birth: Birth,
    /// The program of the seccomp profile.
    pub(crate) filter: Option<seccomp::Program>,
    /// See [`process::keeps_groups`].
    pub(crate) keep_groups: bool,
    /// The path at which init attaches the root in its mount namespace, if that begins as a copy of the host's.
    pub(crate) rootfs: String,
    /// The path on the host by which the configuration names the root: that of `root.path`. Only a source of a bind mount
    /// at or below this path can be in the root. Not `rootfs`, which can be `/` or the bundle
    /// ([`GivenRoot::place`](crate::GivenRoot::place)).
    pub(crate) named_root: String,
}

impl<'a, 's> Context<'a, 's> {
    /// Checks what concerns the configuration as a whole, and decides how init is created.
    ///
    /// # Errors
    /// Fails if the configuration or the kernel lacks something, or if the caller may not have it.
    pub(crate) fn of(
        spec: &'a Spec<'s>,
        request: &'a Request<'a>,
        linux: &'a Linux<'s>,
    ) -> Result<Self, Error> {
        request.kernel.check()?;
        let process = spec.process.as_ref();
        let process = process.ok_or_else(|| Error::config("process property must not be empty"))?;
        let root = spec.root.as_ref().ok_or_else(|| Error::config("root is missing"))?;
        let annotations = spec.annotations.iter().map(|(key, value)| (&**key, &**value));
        let keep_groups = process::keeps_groups(annotations);
        request.caller.check(spec, linux, keep_groups)?;
        let namespaces = Namespaces::of(linux);
        if !namespaces.has(CloneFlags::NEWNS) {
            request.kernel.check_detached()?;
        }
        if process.terminal && request.console.is_none() {
            return Err(Error::config("a terminal needs a console socket"));
        }
        let filter = match (&request.filter, linux.seccomp) {
            (Some(filter), _) => Some(filter.clone()),
            (None, Some(profile)) => Some(compile_seccomp(profile.get(), &request.kernel)?),
            (None, None) => None,
        };
        let named_root = absolute(request.bundle, &root.path);
        let birth = Birth::of(spec, linux, &namespaces, request, filter.as_ref());
        Ok(Self {
            spec,
            request,
            process,
            linux,
            birth,
            namespaces,
            filter,
            keep_groups,
            rootfs: request.rootfs.map_or_else(|| named_root.clone(), |given| given.place.into()),
            named_root,
        })
    }

    /// Returns the cgroup that the container sees.
    pub(crate) fn cgroup(&self) -> Option<&'a cgroup::Location> {
        self.request.cgroup.as_ref().or(self.request.shown_cgroup.as_ref())
    }

    /// Returns whether the directory of the container's scope is made before systemd has the scope. Not before Linux 5.9,
    /// which has close_range(2); not if a createContainer hook would run before systemd has the scope, or if a template
    /// forks the program.
    pub(crate) fn has_early_scope(&self) -> bool {
        let unit = |location: &'a cgroup::Location| {
            location.unit.as_ref().filter(|_| location.is_unified())
        };
        let has_files = |unit: &Unit| !matches!(unit.instance, Instance::SystemAt(_));
        self.request.cgroup.as_ref().and_then(unit).is_some_and(has_files)
            && self.request.kernel.fast_paths.contains(FastPaths::EARLY_SCOPE)
            && self.birth.into_cgroup
            && self.request.kernel.version >= (5, 9)
            && self.request.program_start == ProgramStart::Executed
            && (self.awaits_hooks() || self.spec.hooks.create_container.is_empty())
    }

    /// Returns whether the container's processes may be able to change cgroups: by a mount of the hierarchy, by a bind
    /// mount or a root that shows the host's, by CAP_SYS_ADMIN, or by /proc/PID/root of the host's processes.
    pub(crate) fn may_write_cgroups(&self) -> bool {
        const HIERARCHY: &str = "/sys/fs/cgroup";
        let shows = |path: &str| is_at_or_below(HIERARCHY, path) || is_at_or_below(path, HIERARCHY);
        let of_mount = |mount: &Mount<'_>| {
            let options = MountOptions::parse(&mount.options);
            let is_bind = options.is_bind(&mount.kind);
            let source = mount.source.as_deref().unwrap_or_default();
            match &*mount.kind {
                "cgroup" | "cgroup2" => options.attr.set & attr::RDONLY == 0,
                _ => is_bind && shows(&absolute(self.request.bundle, source)),
            }
        };
        let is_admin = |capabilities: &Capabilities<'_>| {
            let (bounding, sets) = process::sets(capabilities);
            (bounding | sets.effective | sets.permitted) & process::CAP_SYS_ADMIN != 0
        };
        !self.namespaces.new.contains(CloneFlags::NEWNS)
            || !self.namespaces.has(CloneFlags::NEWPID)
            || self.process.capabilities.as_ref().is_some_and(is_admin)
            || shows(&self.named_root)
            || self.spec.mounts.iter().any(of_mount)
    }

    /// Returns whether the start runs on CPUs of its own (`--start-cpus`).
    pub(crate) fn has_start_cpus(&self) -> bool {
        self.request.own_cpus.is_some()
    }

    /// Returns whether a rootless caller writes the mappings of a new user namespace. If so, the parent becomes
    /// undumpable only after the mappings are written (`maps-before-undumpable`).
    pub(crate) fn maps_ids(&self) -> bool {
        self.request.caller.is_rootless() && self.namespaces.new.contains(CloneFlags::NEWUSER)
    }

    /// Returns whether init waits for prestart or createRuntime hooks.
    pub(crate) fn awaits_hooks(&self) -> bool {
        !self.spec.hooks.prestart.is_empty() || !self.spec.hooks.create_runtime.is_empty()
    }

    /// Returns whether init becomes undumpable only after these hooks. Without root, a hook reads init's /proc/PID/ns
    /// and root only while init is dumpable, as under runc. No other process is in init's namespaces until then
    /// (`undumpable-before-sharing`).
    pub(crate) fn shown_to_hooks(&self) -> bool {
        self.maps_ids() && self.awaits_hooks() && self.namespaces.joined.is_empty()
    }

    /// Returns the mounts that the configuration has before `mount`, which is one of them.
    pub(crate) fn before(&self, mount: &Mount<'_>) -> impl Iterator<Item = &Mount<'s>> {
        self.spec.mounts.iter().take_while(move |other| !core::ptr::eq(*other, mount))
    }

    /// Returns the path in the root, without the slash at its end, of a clean path of the host that lies in the root.
    ///
    /// A root that is given has no path on the host but the one that the configuration names. If that is `/`, the given
    /// root is not there: `/` is the host's.
    pub(crate) fn inside_root<'p>(&self, path: &'p str) -> Option<&'p str> {
        let is_elsewhere = self.request.rootfs.is_some() && self.named_root == "/";
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
        let mut kinds = self.spec.mounts.iter().filter(|mount| mount.kind == "sysfs");
        self.birth.parallel_network && kinds.any(|sysfs| wanted(&sysfs.destination))
    }

    /// Returns whether the container's user namespace owns its network namespace: only then may the container mount a
    /// sysfs.
    pub(crate) fn owns_network(&self) -> bool {
        let new = self.namespaces.new;
        if new.contains(CloneFlags::NEWNET) {
            return true;
        }
        let is_above = !self.namespaces.user() && !self.request.caller.is_confined();
        is_above || !(new.contains(CloneFlags::NEWUSER) || self.request.foreign_network)
    }

    /// Returns whether /dev is a bind mount. In that case dayfly creates no nodes and links in it.
    pub(crate) fn dev_is_bound(&self) -> bool {
        self.spec.mounts.iter().any(|mount| {
            let options = MountOptions::parse(&mount.options);
            mount.destination == "/dev" && options.is_bind(&mount.kind) && !options.remount
        })
    }

    /// Returns whether some mount has the destination `path`.
    pub(crate) fn is_mounted(&self, path: &str) -> bool {
        self.spec.mounts.iter().any(|mount| mount.destination == *path)
    }
}
