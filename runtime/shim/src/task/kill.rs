//! Kill: sends signals to processes.

use alloc::format;

use proto::messages::task::KillRequest;
use proto::messages::time::Empty;
use proto::ttrpc::Status;
use rustix::fd::AsFd;
use sys::Errno;

use super::malformed;
use crate::caller::{Answered, Caller, Outcome};
use crate::shim::Shim;
use crate::table::{Process, Stage};
use crate::worker::Job;

const SIGKILL: u32 = 9;

/// Sends a signal through the process's pidfd. For an init that is being restored, SIGKILL ends the
/// restore. A worker sends SIGKILL to init in two cases: if the container is frozen, and if the
/// container has no PID namespace of its own, because init's exit then does not end the other
/// processes.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = KillRequest::decode(payload).map_err(malformed)?;
    let (task, process) = shim.tasks.process(&request.id, &request.exec_id)?;
    let is_init = request.exec_id.is_empty();
    let whole = request.signal == SIGKILL && (task.is_paused || !task.owns_pid_namespace);
    if is_init && whole && task.init().is_alive() {
        let place = task.place();
        return shim.begin(&place.id, Job::answer("kill", caller), None, |work| {
            match work.store(&place)?.container(&place.id)?.kill(SIGKILL.cast_signed()) {
                Ok(()) | Err(container::Error::NotRunning) => Ok(Empty {}.encode()),
                Err(error) => Err(error.into()),
            }
        });
    }
    if is_init && request.signal == SIGKILL && process.pid == 0 && process.stage == Stage::Starting
    {
        let key = process.key;
        shim.end_restore(key);
        return Ok(Outcome::Answer(Empty {}.encode()));
    }
    send(process, request.signal)?;
    Ok(Outcome::Answer(Empty {}.encode()))
}

fn send(process: &Process, signal: u32) -> Result<(), Status> {
    let pidfd = match (process.stage, &process.pidfd) {
        (Stage::Stopped, _) => return Err(Status::not_found("process already finished")),
        (_, Some(pidfd)) => pidfd,
        (_, None) => return Err(Status::failed_precondition("process not created")),
    };
    match sys::signal::send(pidfd.as_fd(), signal.cast_signed()) {
        Ok(()) => Ok(()),
        Err(Errno::SRCH) => Err(Status::not_found("process already finished")),
        Err(errno) => {
            let why = sys::errno::describe(errno);
            let text = format!("kill {} with signal {signal}: {why}", process.pid);
            Err(Status::unknown(text))
        }
    }
}
