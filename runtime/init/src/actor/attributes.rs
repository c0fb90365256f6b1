//! What the scheduler and the memory allocator are told of the process.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::{Failure, Op};

/// Runs on these CPUs from now on, as far as the cgroup has them.
pub(crate) fn run_on(cpus: &CpuSet) -> Result<(), Failure> {
    sched_setaffinity(None, cpus).op("sched_setaffinity")
}
