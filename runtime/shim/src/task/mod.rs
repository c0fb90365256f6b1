//! The task service: one file per call, for both `containerd.task.v3.Task` and v2.
//!
//! A call is either answered at once or stored in a table. So the loop never blocks while a call waits for a worker,
//! for the exit of a process, or for the process's remaining output.

mod checkpoint;
mod connect;
mod create;
mod create_input;
mod delete;
mod exec;
mod freeze;
mod kill;
mod pids;
mod restore;
mod start;
mod state;
mod stats;
mod streams;
mod update;
mod wait;

use alloc::format;

use proto::messages::task::{Method, SERVICE_V2, SERVICE_V3};
use proto::ttrpc::{Call, Status};
use proto::wire::Malformed;

use crate::caller::{Answered, Caller, Outcome};
use crate::shim::Shim;

pub(crate) use create_input::CreateAnswer;
pub(crate) use delete::{remove, remove_unclaimed, response as deleted};
pub(crate) use wait::response as waited;

/// Serves a call: answers it, or stores it in a table for a later answer.
pub(crate) fn serve(shim: &mut Shim, caller: Caller, call: &Call) {
    match dispatch(shim, caller, call) {
        Ok(Outcome::Answer(answer)) => shim.answer(caller, Ok(answer)),
        Ok(Outcome::Later) => {}
        Err(status) => shim.answer(caller, Err(status)),
    }
}

fn dispatch(shim: &mut Shim, caller: Caller, call: &Call) -> Answered {
    if call.service != SERVICE_V3 && call.service != SERVICE_V2 {
        return Err(Status::unimplemented(format!("service {}", call.service)));
    }
    let Some(method) = Method::from_name(&call.method) else {
        return Err(Status::unimplemented(format!("method {}", call.method)));
    };
    shim.daemon.log.debug(format_args!("{} by {}", method.name(), call.service));
    let payload = &call.payload;
    match method {
        Method::Create => create::call(shim, caller, payload),
        Method::Start => start::call(shim, caller, payload),
        Method::Delete => delete::call(shim, caller, payload),
        Method::State => state::call(shim, payload),
        Method::Wait => wait::call(shim, caller, payload),
        Method::Kill => kill::call(shim, caller, payload),
        Method::Exec => exec::call(shim, payload),
        Method::Pids => pids::call(shim, payload),
        Method::Pause => freeze::pause(shim, caller, payload),
        Method::Resume => freeze::resume(shim, caller, payload),
        Method::Update => update::call(shim, caller, payload),
        Method::Stats => stats::call(shim, payload),
        Method::ResizePty => streams::resize(shim, payload),
        Method::CloseIO => streams::close(shim, payload),
        Method::Connect => connect::call(shim, payload),
        Method::Shutdown => connect::shutdown(shim, payload),
        Method::Checkpoint => checkpoint::call(shim, caller, payload),
    }
}

/// Returns the status for a malformed request.
fn malformed(error: Malformed) -> Status {
    Status::invalid_argument(format!("request: {error}"))
}
