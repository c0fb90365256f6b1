//! The clone: creates init, with a copy of the parent's memory or sharing the parent's memory.

use core::ffi::c_void;

use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use sys::clone::{Child, Clone, CloneFlags, clone3, clone3_shared};
use sys::stack::Stack;

use crate::job::Job;
use crate::step::Memory;
use crate::{actor, intermediate};

/// Creates init, or the intermediate that creates it.
///
/// # Errors
/// Those of clone3(2), and ENOMEM.
///
/// # Safety
/// The process has one thread. Both ends of the channel are open, and all data borrowed by `job` stays unchanged.
pub unsafe fn begin(
    job: &'static Job,
    flags: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Child, Errno> {
    // The first reading of the clock looks up the vDSO and allocates. Init must not allocate, so the parent reads the
    // clock once before the clone.
    sys::recorder::now();
    let argument = (&raw const *job).cast();
    match job.memory {
        Memory::Shared => {
            let stack = Stack::map()?;
            // SAFETY: all data that init or the intermediate reaches through `job` is never freed, and changes only
            // through atomics (`made`, the slots, the recorder, the spare entry of an environment). Neither process
            // allocates: this crate has no heap.
            unsafe { clone3_shared(flags, cgroup, &stack, born, argument) }
        }
        // SAFETY: the process has one thread, by the caller's promise.
        Memory::Copied => match unsafe { clone3(flags, cgroup) }? {
            Clone::Parent(child) => Ok(child),
            Clone::Child => born(argument),
        },
    }
}

/// Runs init, or the intermediate: the entry point of the new process.
extern "C" fn born(argument: *const c_void) -> ! {
    // SAFETY: this is the argument of `begin`, which is leaked.
    let job: &'static Job = unsafe { &*argument.cast() };
    if let Some(recorder) = &job.recorder {
        recorder.born();
    }
    // SAFETY: this process has its own descriptor table, in which both numbers are open and have no other owner. If the
    // parent's end stayed open here, init would not notice that the parent closes it.
    let channel = unsafe {
        drop(OwnedFd::from_raw_fd(job.parent_end));
        OwnedFd::from_raw_fd(job.channel)
    };
    if let Some(intermediate) = job.intermediate {
        intermediate::pass_on(intermediate, job, &channel);
    }
    actor::run(job, channel)
}
