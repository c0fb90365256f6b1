//! Anonymous memory shared between the two actors of a start.

use core::ptr::NonNull;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// An array of `T` in a shared anonymous mapping, zeroed. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct Shared<T: 'static> {
    first: NonNull<T>,
    len: usize,
}

impl<T: Copy> Shared<T> {
    /// Maps room for `len` values; all-zero bytes must be a valid `T`.
    ///
    /// # Safety
    /// A `T` of zero bytes must be valid.
    ///
    /// # Errors
    /// ENOMEM.
    pub unsafe fn zeroed(len: usize) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                len * size_of::<T>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        let first = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { first, len })
    }

    /// Stores a value; out of range is ignored and reported as `false`.
    pub fn set(&self, index: usize, value: T) -> bool {
        if index >= self.len {
            return false;
        }
        // SAFETY: in range; each actor writes only its own half, see trace::Recorder.
        unsafe { self.first.add(index).write_volatile(value) };
        true
    }

    /// Reads a value.
    pub fn get(&self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        // SAFETY: in range; the bytes are always a valid T by zeroed's contract and set.
        Some(unsafe { self.first.add(index).read_volatile() })
    }
}
