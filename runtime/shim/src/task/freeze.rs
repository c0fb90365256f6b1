//! Pause and Resume: freeze and thaw a container.

use alloc::vec::Vec;

use proto::messages::task::{PauseRequest, ResumeRequest};

use super::malformed;
use crate::caller::{Answered, Caller};
use crate::shim::Shim;
use crate::worker::{Job, Kind};

pub(super) fn pause(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = PauseRequest::decode(payload).map_err(malformed)?;
    freeze(shim, caller, &request.id, true)
}

pub(super) fn resume(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = ResumeRequest::decode(payload).map_err(malformed)?;
    freeze(shim, caller, &request.id, false)
}

fn freeze(shim: &mut Shim, caller: Caller, id: &str, on: bool) -> Answered {
    let command = if on { "pause" } else { "resume" };
    let task = shim.tasks.made(id, command)?;
    let (place, kind) = (task.place(), Kind::Freeze { task: task.init().key, on });
    shim.begin(id, Job { command, caller: Some(caller), kind }, None, |work| {
        let container = work.store(&place)?.container(&place.id)?;
        if on {
            container.pause()?
        } else {
            container.resume()?
        }
        Ok(Vec::new())
    })
}
