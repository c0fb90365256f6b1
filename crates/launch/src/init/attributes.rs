//! What the scheduler and the memory allocator are told of the process.

use plan::step::NumberSet;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::{Failure, Op};

/// Runs on these CPUs from now on, as far as the cgroup has them.
pub(crate) fn run_on(cpus: &NumberSet) -> Result<(), Failure> {
    sched_setaffinity(None, &cpu_set(cpus)).op("sched_setaffinity")
}

/// The set in rustix's form.
pub(crate) fn cpu_set(cpus: &NumberSet) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    set
}
