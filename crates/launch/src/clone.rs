//! The clone: init begins, in memory of its own or in the host actor's.

use alloc::boxed::Box;
use core::ffi::c_void;

use plan::step::Memory;
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use sys::clone::{Child, Clone, CloneFlags, clone3, clone3_shared};
use sys::stack::Stack;

use crate::birth::Birth;
use crate::{init, relay};

/// Makes init, or the relay that makes it.
pub(crate) fn begin(
    birth: Birth,
    flags: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
    memory: Memory,
) -> Result<Child, Errno> {
    // The clock's first reading looks for the vDSO, and allocates: not for init to do.
    trace::now();
    let birth: &'static Birth = Box::leak(Box::new(birth));
    let argument = (&raw const *birth).cast();
    match memory {
        Memory::Shared => {
            let stack = Stack::map()?;
            // SAFETY: everything that init reaches through `birth` is never freed nor changed, and
            // init does not allocate (see its module's text).
            unsafe { clone3_shared(flags, cgroup, &stack, born, argument) }
        }
        // SAFETY: the process has one thread.
        Memory::Copied => match unsafe { clone3(flags, cgroup) }? {
            Clone::Parent(child) => Ok(child),
            Clone::Child => born(argument),
        },
    }
}

/// The first of init's own.
extern "C" fn born(argument: *const c_void) -> ! {
    // SAFETY: what `begin` leaked.
    let birth: &'static Birth = unsafe { &*argument.cast() };
    if let Some(recorder) = &birth.recorder {
        recorder.born();
    }
    // SAFETY: this process has its own descriptor table, in which both numbers are open and nobody
    // else's. Were the host's end open here too, its closing would go unseen.
    let channel = unsafe {
        drop(OwnedFd::from_raw_fd(birth.host_end));
        OwnedFd::from_raw_fd(birth.channel)
    };
    if let Some(relay) = birth.relay {
        relay::pass_on(relay, birth.time, birth.slots, birth.flags, &channel);
    }
    init::run(birth, channel)
}
