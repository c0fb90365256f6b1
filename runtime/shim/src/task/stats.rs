//! Stats: returns the resource usage of a container.

use proto::messages::task::{StatsRequest, StatsResponse};
use proto::ttrpc::Status;

use super::malformed;
use crate::caller::{Answered, Outcome, failed};
use crate::shim::Shim;

/// Reads the statistics from the container's cgroup.
pub(super) fn call(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = StatsRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.task(&request.id)?;
    let gone = || Status::not_found("cgroup does not exist");
    let location = task.cgroup.as_ref().ok_or_else(gone)?;
    let metrics = crate::stats::metrics(location).map_err(|error| match error.is_gone() {
        true => gone(),
        false => failed("stats", error),
    })?;
    Ok(Outcome::Answer(StatsResponse { stats: Some(metrics) }.encode()))
}
