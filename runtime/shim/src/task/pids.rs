//! Pids: returns all processes of a container.

use alloc::vec::Vec;

use cgroup::Cgroup;
use proto::messages::any::Any;
use proto::messages::options::ProcessDetails;
use proto::messages::process::ProcessInfo;
use proto::messages::task::{PidsRequest, PidsResponse};
use proto::ttrpc::Status;

use super::malformed;
use crate::caller::{Answered, Outcome, failed};
use crate::shim::Shim;

/// Reads the pids from the container's cgroup, and adds the exec ids of processes started by Exec.
pub(super) fn call(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = PidsRequest::decode(payload).map_err(malformed)?;
    let task = shim.tasks.task(&request.id)?;
    let Some(location) = &task.cgroup else {
        return Err(Status::not_found("cgroup does not exist"));
    };
    let pids = Cgroup::open(location).and_then(|cgroup| cgroup.all_pids());
    let pids = pids.map_err(|error| failed("ps", error))?;
    let info = |pid: u32| {
        let process = task.processes.iter().skip(1).find(|process| process.pid == pid)?;
        Some(Any::pack(&ProcessDetails { exec_id: process.exec_id.clone() }))
    };
    let pids = pids.into_iter().map(|pid| pid.as_raw_pid().unsigned_abs());
    let processes: Vec<_> = pids.map(|pid| ProcessInfo { pid, info: info(pid) }).collect();
    Ok(Outcome::Answer(PidsResponse { processes }.encode()))
}
