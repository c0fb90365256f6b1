//! The CPU affinity of the process.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::{Failure, Op};

/// Sets the CPU affinity, limited to the cgroup's CPUs.
pub(crate) fn run_on(cpus: &CpuSet) -> Result<(), Failure> {
    sched_setaffinity(None, cpus).op("sched_setaffinity")
}
