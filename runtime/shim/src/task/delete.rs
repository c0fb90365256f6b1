//! Delete: removes containers and processes that have exited.

use alloc::format;
use alloc::vec::Vec;

use proto::messages::task::{DeleteRequest, DeleteResponse};
use proto::ttrpc::Status;

use super::malformed;
use crate::caller::{Answered, Caller, Outcome};
use crate::shim::{PendingDelete, Shim};
use crate::table::{Place, Process, Stage};
use crate::worker::{Failed, Job, Kind, Work};

/// Starts a worker that removes a container. For a process created by Exec, only its entry in the table is removed. The
/// creation of a container that is not complete yet is ended.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = DeleteRequest::decode(payload).map_err(malformed)?;
    let (task, process) = shim.tasks.process(&request.id, &request.exec_id)?;
    match process.stage {
        Stage::Stopped | Stage::Created => {}
        // The client of Create has gone.
        Stage::Creating => {
            let key = task.init().key;
            shim.end_creation(key, caller);
            return Ok(Outcome::Later);
        }
        Stage::Starting | Stage::Running => {
            return Err(Status::failed_precondition("cannot delete a running process"));
        }
    }
    if !request.exec_id.is_empty() {
        let key = process.key;
        shim.await_output(PendingDelete { caller, process: key });
        return Ok(Outcome::Later);
    }
    let (place, key) = (task.place(), task.init().key);
    let rootfs = format!("{}/rootfs", task.bundle);
    let job = Job { command: "delete", caller: Some(caller), kind: Kind::Delete { task: key } };
    if process.pid == 0 && !task.is_unswept {
        // Start should have restored the container, but failed or was not called. If a container with this id exists,
        // it is a different container.
        return shim.begin(&request.id, job, None, |work| unmount_after(work, Ok(()), &rootfs));
    }
    shim.begin(&request.id, job, None, |work| remove(work, &place, &rootfs))
}

/// Removes a container, or the rest of an incomplete container. Called in a worker.
pub(crate) fn remove(work: &Work<'_>, place: &Place, rootfs: &str) -> Result<Vec<u8>, Failed> {
    let store = work.store(place)?;
    let deleted = store.delete(&place.id, true, work.warn);
    unmount_after(work, deleted.map(drop), rootfs)
}

/// Removes what is left of a creation that was killed before it claimed the id. If a container with this id exists, it
/// is a different container. Called in a worker.
pub(crate) fn remove_unclaimed(
    work: &Work<'_>,
    place: &Place,
    rootfs: &str,
) -> Result<Vec<u8>, Failed> {
    unmount_after(work, work.store(place)?.remove_unrecorded(&place.id), rootfs)
}

/// Unmounts a root filesystem on the host, even if the removal of its container has failed. Returns a worker's answer.
fn unmount_after(
    work: &Work<'_>,
    removed: Result<(), container::Error>,
    rootfs: &str,
) -> Result<Vec<u8>, Failed> {
    work.unmounts();
    container::unmount_on_host(rootfs)?;
    removed?;
    Ok(Vec::new())
}

/// Returns the answer for a process that has exited, or was never started.
pub(crate) fn response(process: &Process) -> DeleteResponse {
    let exit = process.exit.unwrap_or_default();
    DeleteResponse {
        pid: process.pid,
        exit_status: exit.status,
        exited_at: process.exit.map(|exit| exit.at.to_message()),
    }
}
