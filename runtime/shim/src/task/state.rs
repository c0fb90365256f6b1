//! State: returns the state of a process.

use proto::messages::process::status;
use proto::messages::task::{StateRequest, StateResponse};

use super::malformed;
use crate::caller::{Answered, Outcome};
use crate::shim::Shim;
use crate::table::{Process, Stage, Task};

/// Answers at once, from the table.
pub(super) fn call(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = StateRequest::decode(payload).map_err(malformed)?;
    let (task, process) = shim.tasks.process(&request.id, &request.exec_id)?;
    let exit = process.exit.unwrap_or_default();
    let response = StateResponse {
        id: request.id.clone(),
        bundle: task.bundle.clone(),
        pid: process.pid,
        status: status_of(task, process),
        stdin: process.stdio.stdin.clone(),
        stdout: process.stdio.stdout.clone(),
        stderr: process.stdio.stderr.clone(),
        terminal: process.stdio.terminal,
        exit_status: exit.status,
        exited_at: process.exit.map(|exit| exit.at.to_message()),
        exec_id: request.exec_id,
    };
    Ok(Outcome::Answer(response.encode()))
}

fn status_of(task: &Task, process: &Process) -> i32 {
    match process.stage {
        Stage::Creating | Stage::Created | Stage::Starting => status::CREATED,
        Stage::Running if task.is_paused => status::PAUSED,
        Stage::Running => status::RUNNING,
        Stage::Stopped => status::STOPPED,
    }
}
