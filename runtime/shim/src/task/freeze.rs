//! Pause and Resume: freeze and thaw a container.

use proto::messages::task::{PauseRequest, ResumeRequest};

use super::malformed;
use crate::caller::{Answered, Caller};
use crate::shim::Shim;
use crate::worker::{Job, Kind};

/// Freezes all processes of a container, in a worker, which waits until the cgroup is frozen.
pub(super) fn pause(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = PauseRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.made(&request.id, "pause")?;
    let (place, key) = (task.place(), task.key);
    let job =
        Job { command: "pause", caller: Some(caller), kind: Kind::Freeze { task: key, on: true } };
    shim.begin(&place.id, job, None, |work| {
        work.store(&place)?.container(&place.id)?.pause()?;
        Ok(alloc::vec::Vec::new())
    })
}

/// Thaws all processes of a container.
pub(super) fn resume(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = ResumeRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.made(&request.id, "resume")?;
    let (place, key) = (task.place(), task.key);
    let job = Job {
        command: "resume",
        caller: Some(caller),
        kind: Kind::Freeze { task: key, on: false },
    };
    shim.begin(&place.id, job, None, |work| {
        work.store(&place)?.container(&place.id)?.resume()?;
        Ok(alloc::vec::Vec::new())
    })
}
