//! What Create and Restore have in common: the input of a container's creation, and the facts that the loop learns from
//! it.

use alloc::string::ToString;
use alloc::vec::Vec;

use container::{CgroupDriver, CreateOptions, RootMount};
use plan::FastPaths;
use proto::messages::mount::Mount;
use proto::messages::options::Options;
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use serde::{Deserialize, Serialize};
use spec::{NamespaceKind, Spec, Str};

use crate::bootstrap::settings::Settings;
use crate::table::Place;
use crate::worker::{Failed, Work};

/// All input of a container's creation except the configuration.
pub(super) struct CreateInput<'a> {
    pub place: &'a Place,
    pub bundle: &'a str,
    /// containerd's options.
    pub options: &'a Options,
    pub env: sys::Args,
    /// The environment by which criu is found.
    pub criu_env: sys::Args,
    pub fast_paths: FastPaths,
}

impl<'a> CreateInput<'a> {
    /// Returns the options for the crate `container`. `is_scope` is true if the cgroup's path names a scope of systemd.
    pub fn options(&self, work: &'a Work<'a>, is_scope: bool) -> CreateOptions<'a> {
        CreateOptions {
            id: &self.place.id,
            bundle: self.bundle,
            config: None,
            pid_file: None,
            console_socket: None,
            console: work.console(),
            claim_socket: work.claim_socket(),
            pidfd_socket: None,
            no_pivot: self.options.no_pivot_root,
            no_new_keyring: self.options.no_new_keyring,
            preserve_fds: 0,
            cgroup_driver: match self.options.systemd_cgroup || is_scope {
                true => CgroupDriver::Systemd,
                false => CgroupDriver::Cgroupfs,
            },
            rootless: None,
            env: self.env,
            criu_env: self.criu_env,
            start_cpus: None,
            fast_paths: self.fast_paths,
            pin: None,
            pool: None,
            layered: None,
            rootfs_mode: None,
            template: None,
            warn: work.warn,
            rootfs: &[],
        }
    }
}

/// Converts the mounts of a root filesystem.
pub(super) fn root_mounts(mounts: &[Mount]) -> Vec<RootMount<'_>> {
    mounts
        .iter()
        .map(|mount| RootMount {
            kind: Str::from(mount.kind.as_str()),
            source: Str::from(mount.source.as_str()),
            target: Str::from(mount.target.as_str()),
            options: mount.options.iter().map(|option| Str::from(option.as_str())).collect(),
        })
        .collect()
}

/// The answer of a worker that has created a container: the facts that the loop needs. The loop itself reads neither
/// the configuration nor the container's record, because they contain secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CreateAnswer {
    pub pid: u32,
    pub owns_pid_namespace: bool,
    pub starts_plainly: bool,
    pub cgroup: Option<cgroup::Location>,
}

impl CreateAnswer {
    /// Decodes the answer of a worker.
    pub fn decode(answer: &[u8]) -> Result<Self, Status> {
        serde_json::from_slice(answer).map_err(|error| Status::internal(error.to_string()))
    }

    /// Encodes the answer of a worker.
    pub fn encode(&self) -> Result<Vec<u8>, Failed> {
        serde_json::to_vec(self).map_err(|error| Failed(code::INTERNAL, error.to_string()))
    }
}

/// Returns whether a cgroup path has the form `SLICE:PREFIX:NAME`, which a kubelet with systemd cgroups uses. So no
/// option needs to request systemd: the CRI would pass such an option only to runc's own shim.
fn is_scope(path: &str) -> bool {
    let mut parts = path.split(':');
    let slice = parts.next().unwrap_or_default();
    slice.ends_with(".slice") && !slice.contains('/') && parts.count() == 2
}

/// The facts that the shim needs from a container's configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    /// Whether all processes of the container end with init.
    pub owns_pid_namespace: bool,
    /// Whether Start has no hooks to run, and no trace to write.
    pub starts_plainly: bool,
    /// Whether the root filesystem must be mounted on the host, at `rootfs` in the bundle.
    pub wants_host_root: bool,
    /// Whether the cgroup is a systemd scope, according to the form of its path.
    pub is_scope: bool,
}

impl Traits {
    /// Reads the facts from a parsed configuration.
    pub fn of(spec: &Spec<'_>, mounts: &[RootMount<'_>], settings: Settings) -> Self {
        let linux = spec.linux.as_ref();
        let pid = linux.and_then(|linux| linux.namespace(NamespaceKind::Pid));
        Self {
            owns_pid_namespace: pid.is_some_and(|namespace| namespace.path.is_none()),
            starts_plainly: spec.hooks.start_container.is_empty()
                && spec.hooks.poststart.is_empty()
                && !spec.annotations.iter().any(|(key, _)| **key == *container::ANNOTATION),
            wants_host_root: container::names_checkpoint(spec)
                || container::wants_host_root(spec, mounts, settings.host_rootfs),
            is_scope: linux.and_then(|linux| linux.cgroups_path.as_deref()).is_some_and(is_scope),
        }
    }
}
