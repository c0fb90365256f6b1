//! What the scheduler and the memory allocator are told of the process.

use plan::step::NumberSet;
use rustix::thread::sched_setaffinity;
use sys::sched::cpu_set;

use crate::failure::{Failure, Op};

/// Runs on these CPUs from now on, as far as the cgroup has them.
pub(crate) fn run_on(cpus: &NumberSet) -> Result<(), Failure> {
    sched_setaffinity(None, &cpu_set(cpus.iter())).op("sched_setaffinity")
}
