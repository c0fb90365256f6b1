//! Exec: prepares an additional process, which Start runs.

use alloc::format;

use proto::messages::events::TaskIO;
use proto::messages::task::ExecProcessRequest;
use proto::messages::time::Empty;
use proto::ttrpc::Status;

use super::malformed;
use crate::caller::{Answered, Outcome};
use crate::event::Event;
use crate::shim::Shim;
use crate::table::{Process, Stage};

/// Adds the process to the table.
pub(super) fn call(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = ExecProcessRequest::decode(payload).map_err(malformed)?;
    let key = shim.next_key();
    shim.tasks.made(&request.id, "exec")?;
    let task = shim.tasks.task_mut(&request.id)?;
    spec::validate_id(&request.exec_id)
        .map_err(|error| Status::invalid_argument(format!("exec id: {error}")))?;
    if task.processes.iter().any(|process| process.exec_id == request.exec_id) {
        return Err(Status::already_exists(format!("id {}", request.exec_id)));
    }
    if matches!(task.init().stage, Stage::Stopped) {
        return Err(Status::failed_precondition("cannot exec in a stopped state"));
    }
    if task.is_paused {
        return Err(Status::failed_precondition("cannot exec in a paused state"));
    }
    let stdio = TaskIO {
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
        terminal: request.terminal,
    };
    let mut process = Process::new(key, &request.exec_id, stdio);
    process.stage = Stage::Created;
    process.document = request.spec.map(|any| any.value).unwrap_or_default();
    task.processes.push(process);
    shim.publish(Event::exec_added(&request.id, &request.exec_id));
    Ok(Outcome::Answer(Empty {}.encode()))
}
