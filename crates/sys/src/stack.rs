//! A stack for a process that shares the caller's memory.

use core::ptr::null_mut;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Bytes: the deepest frames hold a path and a line of passwd(5). Untouched pages cost nothing.
const LENGTH: usize = 256 * 1024;
const GUARD: usize = 4096;

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
            Ok(Self { base: base.addr() + GUARD })
        }
    }

    /// Gives the memory back, once its user has ended.
    ///
    /// # Safety
    /// No process runs on it any more.
    pub(crate) unsafe fn unmap(self) {
        let start = core::ptr::without_provenance_mut(self.base - GUARD);
        // SAFETY: ours since `map`, and the caller's promise.
        let _ = unsafe { munmap(start, GUARD + LENGTH) };
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
