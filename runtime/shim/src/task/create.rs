//! Create: creates a container that waits for Start.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use container::{Bundle, CgroupDriver, CreateOptions, Created, RootMount, Warn};
use plan::FastPaths;
use proto::messages::mount::Mount;
use proto::messages::options::Options;
use proto::messages::task::CreateTaskRequest;
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use serde::{Deserialize, Serialize};
use spec::{NamespaceKind, Spec, Str};

use super::{malformed, restore};
use crate::bootstrap::bundle::{BundleState, state_root};
use crate::bootstrap::options;
use crate::bootstrap::settings::Settings;
use crate::caller::{Answered, Caller};
use crate::shim::{Opened, Shim};
use crate::table::{Clearing, Place, Process, Stdio, Task};
use crate::worker::{Failed, Job, Kind, Work};

/// Checks containerd's parameters, and starts a worker that creates the container.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = CreateTaskRequest::decode(payload).map_err(malformed)?;
    spec::validate_id(&request.id)
        .map_err(|error| Status::invalid_argument(format!("task id: {error}")))?;
    if !request.parent_checkpoint.is_empty() {
        return Err(Status::unimplemented("restore: parent images are not supported"));
    }
    let options = match &request.options {
        None => shim.daemon.options.clone(),
        Some(any) => {
            options::read(any).map_err(|error| Status::invalid_argument(error.to_string()))?
        }
    };
    if !matches!(options.binary_name.as_str(), "" | "dayfly") {
        let name = &options.binary_name;
        shim.daemon
            .log
            .warning(format_args!("option BinaryName {name}: ignored, nothing is executed"));
    }
    let bundle = request.bundle.clone();
    let root = state_root(&options.root, &shim.daemon.namespace);
    let key = shim.next_key();
    let stdio = Stdio {
        stdin: request.stdin.clone(),
        stdout: request.stdout.clone(),
        stderr: request.stderr.clone(),
        terminal: request.terminal,
    };
    let init = shim.next_key();
    // The client that requested the shutdown did not know of this container, so the shutdown is cancelled.
    shim.is_shutting_down = false;
    shim.tasks.add(Task {
        key,
        id: request.id.clone(),
        bundle: bundle.clone(),
        root: root.clone(),
        options,
        processes: Vec::from([Process::new(init, "", stdio)]),
        owns_pid_namespace: false,
        starts_plainly: false,
        is_paused: false,
        cgroup: None,
        oom: None,
        created: None,
        clearing: Clearing::Due,
        restoration: restore::requested(&request),
        is_unswept: false,
    })?;
    let begun = begin(shim, caller, request, key, init);
    if begun.is_err() {
        shim.forget(key);
    }
    begun
}

fn begin(
    shim: &mut Shim,
    caller: Caller,
    request: CreateTaskRequest,
    key: u32,
    init: u32,
) -> Answered {
    let task = shim.tasks.task(&request.id)?;
    BundleState { root: task.root.clone(), exit: None }
        .write(&task.bundle)
        .map_err(|error| Status::unknown(error.to_string()))?;
    shim.note_created(key, &request);
    if !request.checkpoint.is_empty() {
        return restore::admit(shim, caller, key);
    }
    let streams = shim.open_streams(init, "create")?;
    let launch = move |shim: &mut Shim, streams| launch(shim, caller, &request, key, streams);
    shim.when_ready(init, caller, "create", streams, Box::new(launch))
}

/// Starts the worker that creates the container, now that the streams are open.
fn launch(
    shim: &mut Shim,
    caller: Caller,
    request: &CreateTaskRequest,
    key: u32,
    streams: Opened,
) -> Answered {
    let task = shim.tasks.task(&request.id)?;
    let (place, options, bundle) = (task.place(), task.options.clone(), task.bundle.clone());
    let (fast_paths, settings) = (shim.daemon.fast_paths, shim.daemon.settings);
    // All other variables, for example NOTIFY_SOCKET, are meant for containerd itself.
    let env = shim.daemon.args.with_only("DBUS_SYSTEM_BUS_ADDRESS");
    let job = Job { command: "create", caller: Some(caller), kind: Kind::Create { task: key } };
    shim.begin(&request.id, job, Some(streams), |work| {
        let log = work.log();
        let warn = |message: &str| log.warning(message);
        let mounts = root_mounts(&request.rootfs);
        let warn = container::Warn(&warn, &warn);
        let store = work.store(&place)?;
        let opened = Bundle::open(&bundle, None)?;
        let spec = opened.parse(work.trace(), warn)?;
        let Traits { owns_pid_namespace, starts_plainly, wants_host_root, is_scope } =
            Traits::of(&spec, &mounts, settings);
        let rootfs = format!("{bundle}/rootfs");
        if wants_host_root {
            container::mount_on_host(&rootfs, &mounts)?;
        }
        let making = Making { place: &place, bundle: &bundle, options: &options, env, fast_paths };
        let create = CreateOptions {
            rootfs: if wants_host_root { &[] } else { &mounts },
            ..making.options(work, is_scope, warn)
        };
        let created = container::create_from(&store, &create, &opened, spec);
        if created.is_err() && wants_host_root {
            container::unmount_on_host(&rootfs)?;
        }
        let Created { init, cgroup } = created?;
        let pid = init.pid.as_raw_pid().unsigned_abs();
        Made { pid, owns_pid_namespace, starts_plainly, cgroup }.encode()
    })
}

/// All input of a container's creation except the configuration.
pub(super) struct Making<'a> {
    pub place: &'a Place,
    pub bundle: &'a str,
    /// containerd's options.
    pub options: &'a Options,
    pub env: sys::Args,
    pub fast_paths: FastPaths,
}

impl<'a> Making<'a> {
    /// Returns the options for the crate `container`. `is_scope` is true if the cgroup's path names a scope of systemd.
    pub fn options(&self, work: &'a Work, is_scope: bool, warn: Warn<'a>) -> CreateOptions<'a> {
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
            start_cpus: None,
            fast_paths: self.fast_paths,
            pin: None,
            pool: None,
            layered: None,
            rootfs_mode: None,
            template: None,
            warn,
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
pub(crate) struct Made {
    pub pid: u32,
    pub owns_pid_namespace: bool,
    pub starts_plainly: bool,
    pub cgroup: Option<cgroup::Location>,
}

impl Made {
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
    wants_host_root: bool,
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
            wants_host_root: container::wants_host_root(spec, mounts, settings.host_rootfs),
            is_scope: linux.and_then(|linux| linux.cgroups_path.as_deref()).is_some_and(is_scope),
        }
    }
}
