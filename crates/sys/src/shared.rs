//! Memory that the actors of a start both reach.

use alloc_crate::vec;
use core::ptr::NonNull;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Entries of `N` words each, zeroed, for as long as the process lives.
#[derive(Debug, Clone, Copy)]
pub struct Shared<const N: usize> {
    first: NonNull<[u64; N]>,
    len: usize,
}

impl<const N: usize> Shared<N> {
    /// Room for `len` entries on the heap, for actors that have their memory in common.
    pub fn leaked(len: usize) -> Self {
        let entries: &'static mut [[u64; N]] = vec![[0; N]; len].leak();
        Self { first: NonNull::from(entries).cast(), len }
    }

    /// Maps room for `len` entries that a child without our memory has as well; only what is written takes
    /// memory.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn zeroed(len: usize) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                len * size_of::<[u64; N]>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        let first = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { first, len })
    }

    /// Stores an entry; out of range is ignored. One process writes an entry, others may read it.
    pub fn set(&self, index: usize, value: [u64; N]) {
        if index < self.len {
            // SAFETY: in range of a mapping that is never unmapped.
            unsafe { self.first.add(index).write_volatile(value) };
        }
    }

    /// Reads an entry.
    pub fn get(&self, index: usize) -> Option<[u64; N]> {
        if index >= self.len {
            return None;
        }
        // SAFETY: in range, and any bytes are a valid array of words.
        Some(unsafe { self.first.add(index).read_volatile() })
    }
}
