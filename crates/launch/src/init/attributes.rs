//! What the scheduler and the memory allocator are told of the process.

use plan::step::NumberSet;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::{Failure, Op};

/// Runs on these CPUs from now on, as far as the cgroup has them.
pub(crate) fn run_on(cpus: &NumberSet) -> Result<(), Failure> {
    sched_setaffinity(None, &cpu_set(cpus)).op("sched_setaffinity")
}

/// Runs on these CPUs again, which it would have had but for `--start-cpus`. In a cgroup that has none of
/// them it would have had all of the cgroup's.
pub(crate) fn run_again_on(cpus: &NumberSet) -> Result<(), Failure> {
    match sched_setaffinity(None, &cpu_set(cpus)) {
        Err(Errno::INVAL) => {
            let mut all = CpuSet::new();
            (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
            sched_setaffinity(None, &all)
        }
        result => result,
    }
    .op("sched_setaffinity")
}

/// The set in rustix's form.
pub(crate) fn cpu_set(cpus: &NumberSet) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    set
}
