//! Start: runs the program of a created container, or a process prepared by Exec.

use alloc::boxed::Box;
use alloc::string::String;

use container::{ExecOptions, ProcessDocument};
use proto::messages::task::StartRequest;
use proto::ttrpc::Status;

use super::{malformed, restore};
use crate::caller::{Answered, Caller};
use crate::shim::{Opened, Shim};
use crate::table::{Place, Stage};
use crate::worker::{Job, Kind};

/// Starts the process. The call is answered after the process's execve(2), or after the restore of the container.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = StartRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.task(&request.id)?;
    let (place, is_saved) = (task.place(), task.restoration.is_some());
    let process = shim.tasks.process_mut(&request.id, &request.exec_id)?;
    match process.stage {
        Stage::Created => process.stage = Stage::Starting,
        Stage::Stopped => {
            return Err(Status::failed_precondition("cannot start a stopped process"));
        }
        _ => return Err(Status::failed_precondition("cannot start a running process")),
    }
    let key = process.key;
    let started = match request.exec_id.is_empty() {
        true if is_saved => restore::prepare(shim, caller, key),
        true => shim.start(caller, key, place),
        false => prepare(shim, caller, place, key),
    };
    match (&started, shim.tasks.by_key_mut(key)) {
        // No worker was started, so init still waits for Start.
        (Err(_), Some(init)) if init.pid != 0 => init.stage = Stage::Created,
        (Err(_), _) => shim.not_started(key),
        (Ok(_), _) => {}
    }
    started
}

/// Opens the streams of a process prepared by Exec, and starts the process's worker once the streams are ready.
fn prepare(shim: &mut Shim, caller: Caller, place: Place, key: u32) -> Answered {
    let streams = shim.open_streams(key, "exec")?;
    let launch = move |shim: &mut Shim, streams| exec(shim, caller, &place, key, streams);
    shim.when_ready(key, caller, "exec", streams, Box::new(launch))
}

fn exec(shim: &mut Shim, caller: Caller, place: &Place, key: u32, streams: Opened) -> Answered {
    let fast_paths = shim.daemon.fast_paths;
    let process = shim.tasks.by_key_mut(key).ok_or_else(|| Status::not_found("process"))?;
    // As in containerd's own shim, the call determines whether the process has a terminal, whatever its JSON says.
    let terminal = process.stdio.terminal;
    let document = String::from_utf8(core::mem::take(&mut process.document))
        .map_err(|_| Status::invalid_argument("process: not UTF-8"))?;
    let job = Job { command: "exec", caller: Some(caller), kind: Kind::Exec { process: key } };
    shim.begin(&place.id, job, Some(streams), |work| {
        let options = ExecOptions {
            process: Some(ProcessDocument::Text { json: &document, terminal }),
            console: work.console(),
            fast_paths,
            warn: work.warn,
            ..ExecOptions::default()
        };
        let container = work.store(place)?.container(&place.id)?;
        Ok(work.made(container.exec_detached(&options)?))
    })
}
