//! Wait: waits for the exit of a process.

use proto::messages::task::{WaitRequest, WaitResponse};

use super::malformed;
use crate::caller::{Answered, Caller, Outcome};
use crate::shim::Shim;
use crate::table::Exit;

/// Answers at once if the process has already exited; otherwise adds the caller to the process's waiters.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = WaitRequest::decode(payload).map_err(malformed)?;
    let process = shim.tasks.process_mut(&request.id, &request.exec_id)?;
    match process.exit {
        Some(exit) => Ok(Outcome::Answer(response(exit))),
        None => {
            process.waiters.push(caller);
            Ok(Outcome::Later)
        }
    }
}

/// Returns the answer to a Wait call.
pub(crate) fn response(exit: Exit) -> alloc::vec::Vec<u8> {
    WaitResponse { exit_status: exit.status, exited_at: Some(exit.at.to_message()) }.encode()
}
