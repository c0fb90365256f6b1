//! How a process is scheduled: sched_setattr(2) for the CPU, ioprio_set(2) for block devices.

use rustix::io::Errno;
use rustix::thread::CpuSet;

/// How a process is scheduled (sched_setattr(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// SCHED_*.
    pub policy: u32,
    /// SCHED_FLAG_*.
    pub flags: u64,
    /// Nice value, of policies that are not for real time.
    pub nice: i32,
    /// Static priority of SCHED_FIFO and SCHED_RR.
    pub priority: u32,
    /// Nanoseconds of CPU in a period, of SCHED_DEADLINE.
    pub runtime: u64,
    /// Nanoseconds from the beginning of a period.
    pub deadline: u64,
    /// Nanoseconds.
    pub period: u64,
}

/// `struct sched_attr`, with the clamps of Linux 5.3.
#[repr(C)]
struct Raw {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    utilization_min: u32,
    utilization_max: u32,
}

/// A set of CPUs in rustix's form.
pub fn cpu_set(cpus: impl Iterator<Item = u32>) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.for_each(|cpu| set.set(cpu as usize));
    set
}

/// Lets the caller run on every CPU there is or will be, as far as its cgroup has them: cpuset(7) masks
/// the set anew whenever the cgroup's changes. The kernel takes as much of it as it has CPUs for.
///
/// # Errors
/// Those of sched_setaffinity(2); EINVAL if the cgroup has no CPU that is online.
pub fn run_on_every_cpu() -> Result<(), Errno> {
    /// As many as x86 kernels can be built for.
    static ALL: [u8; 8192 / 8] = [0xff; 8192 / 8];
    let set = [0, ALL.len(), ALL.as_ptr().addr()];
    // SAFETY: the set is valid for its length and only read.
    unsafe { crate::raw::call(crate::raw::nr::SCHED_SETAFFINITY, set) }.map(drop)
}

/// Sets policy and parameters of the caller.
///
/// # Errors
/// Those of sched_setattr(2): EPERM without CAP_SYS_NICE, or for SCHED_DEADLINE in a cpuset; EBUSY
/// where a deadline cannot be kept; EINVAL.
pub fn set_attributes(attributes: &Attributes) -> Result<(), Errno> {
    let &Attributes { policy, flags, nice, priority, runtime, deadline, period } = attributes;
    let raw = Raw {
        size: size_of::<Raw>() as u32,
        policy,
        flags,
        nice,
        priority,
        runtime,
        deadline,
        period,
        utilization_min: 0,
        utilization_max: 0,
    };
    // SAFETY: the structure is valid for the size it names.
    unsafe { crate::raw::call(crate::raw::nr::SCHED_SETATTR, [0, (&raw const raw).addr(), 0]) }
        .map(drop)
}

/// Sets the caller's I/O priority, which its children have as well: the class, shifted by 13 bits,
/// and the level.
///
/// # Errors
/// Those of ioprio_set(2): EPERM for the real-time class without CAP_SYS_NICE.
pub fn set_io_priority(priority: u16) -> Result<(), Errno> {
    const WHO_PROCESS: usize = 1;
    // SAFETY: no pointers.
    unsafe { crate::raw::call(crate::raw::nr::IOPRIO_SET, [WHO_PROCESS, 0, priority.into()]) }
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which takes what it changed along.
    fn apart(work: impl FnOnce() + Send + 'static) {
        std::thread::spawn(work).join().unwrap();
    }

    #[test]
    fn batch_with_a_nice_value() {
        apart(|| {
            const BATCH: u32 = 3;
            let attributes = Attributes { policy: BATCH, nice: 7, ..Attributes::default() };
            assert_eq!(set_attributes(&attributes), Ok(()));
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            assert_eq!((fields[16], fields[38]), ("7", "3"), "{stat}");
        });
    }

    #[test]
    fn what_cannot_be_is_refused() {
        apart(|| {
            let unknown = Attributes { policy: 99, ..Attributes::default() };
            assert_eq!(set_attributes(&unknown), Err(Errno::INVAL));
            assert_eq!(set_io_priority(7 << 13), Err(Errno::INVAL));
            assert_eq!(set_io_priority(2 << 13 | 6), Ok(()));
        });
    }
}
