//! Restore: Create and Start of a container whose processes criu has saved.
//!
//! As with containerd's own shim, Create only adds the container to the table, with pid 0, and
//! Start restores the container.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use container::{Bundle, CreateOptions, RestoreOptions, Store};
use proto::messages::options::Options;
use proto::messages::task::CreateTaskRequest;
use proto::ttrpc::Status;
use spec::Spec;

use super::create_input::{CreateAnswer, CreateInput, Traits, root_mounts};
use crate::bootstrap::Daemon;
use crate::caller::{Answered, Caller, Outcome};
use crate::shim::{Opened, Shim};
use crate::table::{Place, Restoration, Task};
use crate::worker::{Failed, Job, Kind};

/// Returns the checkpoint that Create names, if any.
pub(super) fn requested(request: &CreateTaskRequest) -> Option<Restoration> {
    let images = Some(&request.checkpoint).filter(|images| !images.is_empty())?;
    Some(Restoration { images: images.clone(), rootfs: request.rootfs.clone() })
}

/// Adds a container that Start will restore. A worker mounts the container's root filesystem, because containerd may
/// change files there before Start.
pub(super) fn admit(shim: &mut Shim, caller: Caller, key: u32) -> Answered {
    let saved = shim.tasks.of_process(key).and_then(Saved::of);
    let saved = saved.ok_or_else(|| Status::not_found("container"))?;
    if saved.restoration.rootfs.is_empty() {
        return Ok(Outcome::Answer(shim.admitted(key)));
    }
    let kind = Kind::Create { task: key, is_admitted: true };
    let job = Job { command: "create", caller: Some(caller), kind };
    shim.begin(&saved.place.id, job, None, |_| {
        let rootfs = format!("{}/rootfs", saved.bundle);
        container::mount_on_host(&rootfs, &root_mounts(&saved.restoration.rootfs))?;
        Ok(Vec::new())
    })
}

/// Opens the streams of the container's init, whose key is `key`. Once the streams are ready, starts the worker that
/// restores the container.
pub(super) fn prepare(shim: &mut Shim, caller: Caller, key: u32) -> Answered {
    let streams = shim.open_streams(key, "restore")?;
    let launch = move |shim: &mut Shim, streams| launch(shim, caller, key, streams);
    shim.when_ready(key, caller, "restore", streams, Box::new(launch))
}

fn launch(shim: &mut Shim, caller: Caller, key: u32, streams: Opened) -> Answered {
    let saved = shim.tasks.of_process(key).and_then(Saved::of);
    let saved = saved.ok_or_else(|| Status::not_found("container"))?;
    let Daemon { args, fast_paths, settings, .. } = shim.daemon;
    let kind = Kind::Restore { process: key };
    let job = Job { command: "restore", caller: Some(caller), kind };
    let id = &saved.place.id;
    shim.begin(id, job, Some(streams), |work| {
        let store = work.store(&saved.place)?;
        let bundle = Bundle::open(&saved.bundle, None)?;
        let spec = bundle.parse(work.trace, work.warn)?;
        let traits = Traits::of(&spec, &[], settings);
        let (place, options) = (&saved.place, &saved.options);
        let (bundle_path, criu_env) = (&saved.bundle, args);
        let input =
            CreateInput { place, bundle: bundle_path, options, env: args, criu_env, fast_paths };
        saved.restore(&store, &bundle, spec, input.options(work, traits.is_scope))?;
        let made = store.container(id).map_err(Failed::from).and_then(|container| {
            let pid = container.pid().map_or(0, |pid| pid.as_raw_pid().unsigned_abs());
            let cgroup = container.cgroup_location().cloned();
            let Traits { owns_pid_namespace, starts_plainly, .. } = traits;
            CreateAnswer { pid, owns_pid_namespace, starts_plainly, cgroup }.encode()
        });
        if made.is_err() {
            // The shim will have no entry for the container, so the container must not continue.
            store.delete(id, true, work.warn)?;
        }
        made
    })
}

/// A container to restore.
struct Saved {
    place: Place,
    bundle: String,
    options: Options,
    restoration: Restoration,
    has_terminal: bool,
}

impl Saved {
    fn of(task: &Task) -> Option<Self> {
        Some(Self {
            place: task.place(),
            bundle: task.bundle.clone(),
            options: task.options.clone(),
            restoration: task.restoration.clone()?,
            has_terminal: task.init().stdio.terminal,
        })
    }

    /// Restores the container from the parsed configuration of its bundle; called in a worker. On failure, nothing is
    /// left but criu's log in the bundle.
    fn restore(
        &self,
        store: &Store,
        bundle: &Bundle,
        spec: Spec<'_>,
        create: CreateOptions<'_>,
    ) -> Result<(), Failed> {
        let (warn, own_work) = (create.warn, container::own_work(&self.bundle));
        let named_work = Some(&self.options.criu_work_path).filter(|path| !path.is_empty());
        let places = (self.restoration.images.as_str(), named_work.unwrap_or(&own_work).as_str());
        let options = RestoreOptions::of_engine(create, places, self.has_terminal);
        container::restore_from(store, &options, bundle, spec)?;
        if named_work.is_none()
            && let Err(error) = container::remove_work(&own_work)
        {
            // The container is running, so this error is only a warning.
            (warn.record)(&error.to_string());
        }
        Ok(())
    }
}
