//! The clone: creates init, with a copy of the parent's memory or sharing the parent's memory.

use core::sync::atomic::Ordering;

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use sys::clone::{Child, Clone, CloneFlags, clone3, clone3_shared};
use sys::shared::Leaked;
use sys::stack::Stack;

use crate::job::Job;
use crate::step::Memory;
use crate::{actor, intermediate};

/// Creates init, or the intermediate that creates it.
///
/// # Errors
/// Those of clone3(2), and ENOMEM.
pub fn begin(
    job: Leaked<Job<'_>>,
    flags: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Child, Errno> {
    // The first reading of the clock looks up the vDSO and allocates. Init must not allocate, so the parent reads the
    // clock once before the clone.
    sys::recorder::now();
    match job.memory {
        Memory::Shared => {
            let stack = Stack::map()?;
            // SAFETY: all data that init or the intermediate reaches through `job` is leaked or static, and changes only
            // through atomics (`begun`, `made`, the slots, the recorder, the spare entry of an environment). Neither
            // process allocates: this crate has no heap.
            unsafe { clone3_shared(flags, cgroup, &stack, born, &*job) }
        }
        Memory::Copied => match clone3(flags, cgroup)? {
            Clone::Parent(child) => Ok(child),
            Clone::Child => born(&job),
        },
    }
}

/// Runs init, or the intermediate: the entry point of the new process.
extern "C" fn born(job: &Job<'_>) -> ! {
    if let Some(recorder) = &job.recorder {
        recorder.born();
    }
    // SAFETY: both were open at the clone, and this process has its own descriptor table, in which nothing else owns or
    // uses them. If the parent's end stayed open here, init would not notice that the parent closes it.
    let channel = unsafe {
        drop(OwnedFd::from_raw_fd(job.parent_end.as_raw_fd()));
        OwnedFd::from_raw_fd(job.channel.as_raw_fd())
    };
    if let Some(intermediate) = job.intermediate {
        intermediate::pass_on(intermediate, job, &channel);
    }
    job.begun.store(true, Ordering::Release);
    actor::run(job, channel)
}
