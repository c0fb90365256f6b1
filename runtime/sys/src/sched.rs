//! Scheduling: sched_setattr(2) for the CPU, ioprio_set(2) for block devices.

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;

/// Scheduling policy and parameters (sched_setattr(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// SCHED_*.
    pub policy: u32,
    /// SCHED_FLAG_*.
    pub flags: u64,
    /// Nice value, for policies that are not real-time.
    pub nice: i32,
    /// Static priority for SCHED_FIFO and SCHED_RR.
    pub priority: u32,
    /// SCHED_DEADLINE: nanoseconds of CPU time per period.
    pub runtime: u64,
    /// SCHED_DEADLINE: the deadline in nanoseconds from the beginning of a period.
    pub deadline: u64,
    /// SCHED_DEADLINE: length of a period in nanoseconds.
    pub period: u64,
}

/// `struct sched_attr`, with the utilization clamps that Linux 5.3 added.
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

/// Returns a set of CPUs as rustix's type.
pub fn cpu_set(cpus: impl Iterator<Item = u32>) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.for_each(|cpu| set.set(cpu as usize));
    set
}

/// The maximum number of CPUs of x86 kernels.
const CPUS: usize = 8192;

/// The CPU affinity of a process on any host. rustix's set has 1024 CPUs, for which the kernel of a host with more CPUs
/// does not tell the affinity (EINVAL; runc #5343).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Affinity([u64; CPUS / 64]);

impl Affinity {
    /// Returns the affinity of a process, or of the caller.
    ///
    /// # Errors
    /// Those of sched_getaffinity(2): ESRCH.
    pub fn of(pid: Option<Pid>) -> Result<Self, Errno> {
        let mut cpus = [0; CPUS / 64];
        let set = crate::raw::args![Pid::as_raw(pid), size_of_val(&cpus), &raw mut cpus];
        // SAFETY: the kernel writes at most the given length.
        unsafe { crate::raw::call(crate::raw::nr::SCHED_GETAFFINITY, set) }?;
        Ok(Self(cpus))
    }

    /// Makes this the affinity of a process, or of the caller. The kernel ignores CPUs beyond its maximum.
    ///
    /// # Errors
    /// Those of sched_setaffinity(2): EINVAL if none of the CPUs is online and in the cgroup of the process.
    pub fn set(&self, pid: Option<Pid>) -> Result<(), Errno> {
        let set = crate::raw::args![Pid::as_raw(pid), size_of_val(&self.0), self.0.as_ptr()];
        // SAFETY: the set is valid for its length and only read.
        unsafe { crate::raw::call(crate::raw::nr::SCHED_SETAFFINITY, set) }.map(drop)
    }

    /// Returns whether the affinity includes this CPU.
    pub fn has(&self, cpu: u32) -> bool {
        self.0.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Returns the affinity that consists of the nth CPU of this one.
    pub fn nth(&self, nth: usize) -> Option<Self> {
        let cpu = (0..).take(CPUS).filter(|cpu| self.has(*cpu)).nth(nth)?;
        let mut one = Self([0; CPUS / 64]);
        *one.0.get_mut(cpu as usize / 64)? = 1 << (cpu % 64);
        Some(one)
    }
}

/// Lets the caller run on every CPU of its cgroup, including CPUs that are added to the cgroup later. All bits of the
/// affinity mask are set. Whenever the cgroup's set changes, the kernel applies the mask to the new set (cpuset(7)).
///
/// # Errors
/// Those of sched_setaffinity(2); EINVAL if the cgroup has no online CPU.
pub fn run_on_every_cpu() -> Result<(), Errno> {
    static ALL: Affinity = Affinity([u64::MAX; CPUS / 64]);
    ALL.set(None)
}

/// Sets the caller's scheduling policy and parameters.
///
/// # Errors
/// Those of sched_setattr(2): EPERM without CAP_SYS_NICE, or for SCHED_DEADLINE in a cpuset; EBUSY if the kernel cannot
/// guarantee the deadline; EINVAL.
pub fn set_attributes(attributes: &Attributes) -> Result<(), Errno> {
    let &Attributes { policy, flags, nice, priority, runtime, deadline, period } = attributes;
    let raw = Raw {
        size: crate::raw::size::<Raw>(),
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
    unsafe {
        crate::raw::call(crate::raw::nr::SCHED_SETATTR, crate::raw::args![0, &raw const raw, 0])
    }
    .map(drop)
}

/// Sets the caller's I/O priority, which children inherit. `priority` is the class, shifted left by 13 bits, plus the
/// level.
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

    /// Runs `work` in a separate thread, so that its settings do not outlast the thread.
    fn apart(work: impl FnOnce() + Send + 'static) {
        std::thread::spawn(work).join().unwrap();
    }

    #[test]
    fn affinity_is_read_and_set() {
        apart(|| {
            let own = Affinity::of(None).unwrap();
            let words: u32 = own.0.iter().map(|word| word.count_ones()).sum();
            let rustix = rustix::thread::sched_getaffinity(None).unwrap();
            assert!((0..1024).all(|cpu| own.has(cpu) == rustix.is_set(cpu as usize)));
            assert!(!own.has(u32::MAX));
            let last = own.nth(words as usize - 1).unwrap();
            last.set(None).unwrap();
            assert_eq!(Affinity::of(None).unwrap(), last);
            assert_eq!(own.nth(words as usize), None);
            run_on_every_cpu().unwrap();
        });
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
