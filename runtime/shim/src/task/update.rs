//! Update: changes a container's limits.

use alloc::format;

use proto::messages::task::UpdateTaskRequest;
use proto::messages::time::Empty;
use proto::ttrpc::Status;
use spec::resources::Resources;

use super::malformed;
use crate::caller::{Answered, Caller, Outcome};
use crate::shim::Shim;
use crate::worker::Job;

/// Starts a worker that changes the limits. With systemd cgroups, the worker must wait for D-Bus.
pub(super) fn call(shim: &mut Shim, caller: Caller, payload: &[u8]) -> Answered {
    let request = UpdateTaskRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.made(&request.id, "update")?;
    let Some(document) = &request.resources else {
        return Ok(Outcome::Answer(Empty {}.encode()));
    };
    let (resources, _) = Resources::parse_and_tell(&document.value)
        .map_err(|error| Status::invalid_argument(format!("resources: {error}")))?;
    let place = task.place();
    shim.begin(&place.id, Job::answer("update", caller), None, |work| {
        work.store(&place)?.container(&place.id)?.update(&resources)?;
        Ok(Empty {}.encode())
    })
}
