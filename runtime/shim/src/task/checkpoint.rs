//! Checkpoint: saves a container's processes with criu.

use alloc::format;
use alloc::vec::Vec;

use container::{CheckpointOptions, CriuOptions, Pages, Tracking, cgroups_mode};
use proto::messages::options;
use proto::messages::task::CheckpointTaskRequest;
use proto::ttrpc::Status;

use super::malformed;
use crate::caller::{Answered, Caller};
use crate::shim::Shim;
use crate::table::Place;
use crate::worker::{Failed, Job, Kind, Work};

/// Starts a worker that runs criu. The container continues, unless the options request that it exits.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = CheckpointTaskRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.made(&request.id, "checkpoint")?;
    let options = match &request.options {
        None => options::CheckpointOptions::default(),
        Some(any) => any
            .unpack()
            .map_err(malformed)?
            .ok_or_else(|| Status::invalid_argument(format!("options: type {}", any.type_url)))?,
    };
    let images = match request.path.as_str() {
        "" => options.image_path.clone(),
        path => path.into(),
    };
    if images.is_empty() {
        return Err(Status::invalid_argument("no directory for the images"));
    }
    if !options.parent_path.is_empty() {
        return Err(Status::unimplemented("checkpoint: parent images are not supported"));
    }
    if let Some(other) = options.empty_namespaces.iter().find(|name| *name != "network") {
        let text = format!("checkpoint: namespace {other:?} cannot be restored empty");
        return Err(Status::invalid_argument(text));
    }
    let (place, bundle) = (task.place(), task.bundle.clone());
    let kind = Kind::Checkpoint { task: task.init().key, images: images.clone() };
    let job = Job { command: "checkpoint", caller: Some(caller), kind };
    let args = shim.daemon.args;
    shim.begin(&request.id, job, None, |work| save(work, &place, &bundle, &images, &options, args))
}

/// Saves a container; called in a worker.
fn save(
    work: &Work<'_>,
    place: &Place,
    bundle: &str,
    images: &str,
    options: &options::CheckpointOptions,
    args: sys::Args,
) -> Result<Vec<u8>, Failed> {
    let own_work = container::own_work(bundle);
    let is_own = options.work_path.is_empty();
    let mode = Some(options.cgroups_mode.as_str()).filter(|mode| !mode.is_empty());
    let saved = work.store(place)?.container(&place.id)?.checkpoint(&CheckpointOptions {
        criu: CriuOptions {
            images,
            work: Some(if is_own { &own_work } else { &options.work_path }),
            shell_job: options.terminal,
            file_locks: options.file_locks,
            ext_unix_sk: options.external_unix_sockets,
            tcp_established: options.open_tcp,
            cgroups_mode: cgroups_mode(mode)?,
            pages: Pages::default(),
        },
        config: None,
        leave_running: !options.exit,
        tcp_skip_in_flight: false,
        link_remap: false,
        allowed: Vec::new(),
        record: false,
        tracking: Tracking::default(),
        env: args,
        warn: work.warn,
    });
    saved?;
    if is_own {
        container::remove_work(&own_work)?;
    }
    Ok(Vec::new())
}
