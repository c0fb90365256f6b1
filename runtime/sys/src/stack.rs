//! A stack for a process that shares the caller's memory.

use core::ptr::null_mut;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

/// Bytes: the deepest frames hold a path and a line of passwd(5). Untouched pages cost nothing.
const LENGTH: usize = 256 * 1024;
/// Bytes: a multiple of every page size there is.
const GUARD: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 65536 };

/// Memory for a stack, with a page below it that faults. It is never unmapped: its user may outlive
/// the caller's interest in it.
#[derive(Debug)]
pub struct Stack {
    base: usize,
}

impl Stack {
    /// Maps one.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn map() -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice, whose first page nobody uses.
        unsafe {
            let base = mmap_anonymous(null_mut(), GUARD + LENGTH, protection, MapFlags::PRIVATE)?;
            mprotect(base, GUARD, MprotectFlags::empty())?;
            watch::note(base.addr() + GUARD);
            Ok(Self { base: base.addr() + GUARD })
        }
    }

    /// Gives the memory back, once its user has ended.
    ///
    /// # Safety
    /// No process runs on it any more.
    #[cfg(feature = "alloc")]
    pub(crate) unsafe fn unmap(self) {
        let start = core::ptr::without_provenance_mut(self.base - GUARD);
        // SAFETY: ours since `map`, and the caller's promise.
        let _ = unsafe { rustix::mm::munmap(start, GUARD + LENGTH) };
    }

    /// The lowest usable address.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Bytes above it.
    pub(crate) fn len(&self) -> usize {
        LENGTH
    }
}

/// Whether whoever runs on such a stack allocates: it must not, as its memory is somebody else's as well.
#[cfg(dayfly_faults)]
mod watch {
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// All stacks so far are between these; heap and first stack are no place for a stack pointer to be there.
    static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
    static END: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn note(base: usize) {
        LOWEST.fetch_min(base, Ordering::Relaxed);
        END.fetch_max(base + super::LENGTH, Ordering::Relaxed);
    }

    /// In a process with a copy of the memory: the stacks are its own.
    pub fn forget() {
        LOWEST.store(usize::MAX, Ordering::Relaxed);
        END.store(0, Ordering::Relaxed);
    }

    /// Ends a process on such a stack.
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

    /// Only test builds look.
    #[inline(always)]
    pub const fn forget() {}

    /// Only test builds look.
    #[inline(always)]
    pub(crate) const fn refuse_shared() {}
}

pub use watch::forget;
pub(crate) use watch::refuse_shared;
