//! Connect and Shutdown: return the shim's identity, and shut the shim down.

use alloc::string::ToString;

use proto::messages::task::{ConnectRequest, ConnectResponse, ShutdownRequest};
use proto::messages::time::Empty;

use super::malformed;
use crate::bootstrap::VERSION;
use crate::caller::{Answered, Outcome};
use crate::shim::Shim;

/// Returns the pid and version of the shim, and the pid of the task's init, which is 0 if the container does not exist.
pub(super) fn call(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = ConnectRequest::decode(payload).map_err(malformed)?;
    let response = ConnectResponse {
        shim_pid: rustix::process::getpid().as_raw_pid().unsigned_abs(),
        task_pid: shim.tasks.task(&request.id).map_or(0, |task| task.init().pid),
        version: VERSION.to_string(),
    };
    Ok(Outcome::Answer(response.encode()))
}

/// Shuts the shim down if it has no containers, or if the request sets `now`.
pub(super) fn shutdown(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = ShutdownRequest::decode(payload).map_err(malformed)?;
    if shim.tasks.is_empty() || request.now {
        shim.shut_down();
    }
    Ok(Outcome::Answer(Empty {}.encode()))
}
