//! Create: creates a container that waits for Start.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use container::{Bundle, CreateOptions};
use proto::messages::events::TaskIO;
use proto::messages::task::CreateTaskRequest;
use proto::ttrpc::Status;

use super::create_input::{CreateAnswer, CreateInput, Traits, root_mounts};
use super::{malformed, restore};
use crate::bootstrap::bundle::{BundleState, state_root};
use crate::bootstrap::options;
use crate::caller::{Answered, Caller};
use crate::shim::{Opened, Shim};
use crate::table::{Process, Task};
use crate::worker::{Job, Kind};

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
    let stdio = TaskIO {
        stdin: request.stdin.clone(),
        stdout: request.stdout.clone(),
        stderr: request.stderr.clone(),
        terminal: request.terminal,
    };
    // The client that requested the shutdown did not know of this container, so the shutdown is cancelled.
    shim.is_shutting_down = false;
    shim.tasks.add(Task {
        id: request.id.clone(),
        bundle: bundle.clone(),
        root: root.clone(),
        options,
        processes: Vec::from([Process::new(key, "", stdio)]),
        restoration: restore::requested(&request),
        ..Task::default()
    })?;
    let begun = begin(shim, caller, request, key);
    if begun.is_err() {
        shim.forget(key);
    }
    begun
}

fn begin(shim: &mut Shim, caller: Caller, request: CreateTaskRequest, key: u32) -> Answered {
    let task = shim.tasks.task(&request.id)?;
    BundleState { root: task.root.clone(), exit: None }
        .write(&task.bundle)
        .map_err(|error| Status::unknown(error.to_string()))?;
    shim.note_created(key, &request);
    if !request.checkpoint.is_empty() {
        return restore::admit(shim, caller, key);
    }
    let streams = shim.open_streams(key, "create")?;
    let launch = move |shim: &mut Shim, streams| launch(shim, caller, &request, key, streams);
    shim.when_ready(key, caller, "create", streams, Box::new(launch))
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
    let criu_env = shim.daemon.args;
    let env = criu_env.with_only("DBUS_SYSTEM_BUS_ADDRESS");
    let kind = Kind::Create { task: key, is_admitted: false };
    let job = Job { command: "create", caller: Some(caller), kind };
    shim.begin(&request.id, job, Some(streams), |work| {
        let mounts = root_mounts(&request.rootfs);
        let store = work.store(&place)?;
        let opened = Bundle::open(&bundle, None)?;
        let spec = opened.parse(work.trace, work.warn)?;
        let Traits { owns_pid_namespace, starts_plainly, wants_host_root, is_scope } =
            Traits::of(&spec, &mounts, settings);
        let rootfs = format!("{bundle}/rootfs");
        if wants_host_root {
            container::mount_on_host(&rootfs, &mounts)?;
        }
        let (place, bundle, options) = (&place, &bundle, &options);
        let input = CreateInput { place, bundle, options, env, criu_env, fast_paths };
        let create = CreateOptions {
            rootfs: if wants_host_root { &[] } else { &mounts },
            ..input.options(work, is_scope)
        };
        let created = container::create_from(&store, &create, &opened, spec);
        if created.is_err() && wants_host_root {
            container::unmount_on_host(&rootfs)?;
        }
        let (init, cgroup) = created?;
        let pid = init.pid.as_raw_pid().unsigned_abs();
        CreateAnswer { pid, owns_pid_namespace, starts_plainly, cgroup }.encode()
    })
}
