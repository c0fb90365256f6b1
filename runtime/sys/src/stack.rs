//! A stack for a process that shares the caller's memory.

use core::ptr::null_mut;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

/// The size of the stack in bytes. The largest frames contain a path and a line of passwd(5). Untouched pages cost
/// nothing.
const LENGTH: usize = 256 * 1024;
/// Size in bytes of the guard page: a multiple of every page size.
const GUARD: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 65536 };

/// A stack with a guard page below it. Dropping this value does not unmap the stack, because the process that runs on
/// it may run for longer.
#[derive(Debug)]
pub struct Stack {
    base: usize,
}

impl Stack {
    /// Maps a stack.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn map() -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; its first page is not used yet.
        unsafe {
            let base = mmap_anonymous(null_mut(), GUARD + LENGTH, protection, MapFlags::PRIVATE)?;
            mprotect(base, GUARD, MprotectFlags::empty())?;
            watch::note(base.addr() + GUARD);
            Ok(Self { base: base.addr() + GUARD })
        }
    }

    /// Unmaps the stack after the process that ran on it has exited.
    ///
    /// # Safety
    /// No process may run on the stack any more.
    #[cfg(feature = "alloc")]
    pub(crate) unsafe fn unmap(self) {
        let start = core::ptr::without_provenance_mut(self.base - GUARD);
        // SAFETY: the memory was mapped by `map`, and by the caller's contract no process uses it.
        let _ = unsafe { rustix::mm::munmap(start, GUARD + LENGTH) };
    }

    /// Returns the lowest usable address.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Returns the usable length in bytes.
    pub(crate) fn len(&self) -> usize {
        LENGTH
    }
}

/// Detects heap allocations by a process that runs on a `Stack`. Such a process must not allocate, because it shares
/// its memory with another process.
#[cfg(dayfly_faults)]
mod watch {
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// The lowest and the highest address of the stacks mapped so far. Neither the heap nor the main stack lies in this
    /// range.
    static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
    static END: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn note(base: usize) {
        LOWEST.fetch_min(base, Ordering::Relaxed);
        END.fetch_max(base + super::LENGTH, Ordering::Relaxed);
    }

    /// Resets the range, in a process that has its own copy of the memory.
    pub fn forget() {
        LOWEST.store(usize::MAX, Ordering::Relaxed);
        END.store(0, Ordering::Relaxed);
    }

    /// Exits with an error message if the caller, which is about to allocate, runs on a `Stack`.
    pub(crate) fn refuse_shared() {
        let here = 0u8;
        let at = (&raw const here).addr();
        if (LOWEST.load(Ordering::Relaxed)..END.load(Ordering::Relaxed)).contains(&at) {
            let message =
                b"dayfly: bug, please report: allocation in memory shared with its maker\n";
            let _ = crate::stdio::write_all(crate::stdio::stderr(), message);
            crate::start::exit(2);
        }
    }
}

#[cfg(not(dayfly_faults))]
mod watch {
    #[inline(always)]
    pub(super) const fn note(_: usize) {}

    /// Does nothing except in test builds.
    #[inline(always)]
    pub const fn forget() {}

    /// Does nothing except in test builds.
    #[inline(always)]
    pub(crate) const fn refuse_shared() {}
}

pub use watch::forget;
pub(crate) use watch::refuse_shared;
