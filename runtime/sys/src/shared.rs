//! Memory shared by the processes that take part in a start (the actors, such as the parent and init).

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// A value that is never freed, because a process that shares the memory may use it for longer than its maker does. What
/// the value borrows may end earlier; a clone has its own copies of the descriptors among it.
#[derive(Debug)]
pub struct Leaked<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Clone for Leaked<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Leaked<T> {}

#[cfg(feature = "alloc")]
impl<T: ?Sized> From<alloc_crate::boxed::Box<T>> for Leaked<T> {
    fn from(value: alloc_crate::boxed::Box<T>) -> Self {
        Self(NonNull::from(alloc_crate::boxed::Box::leak(value)))
    }
}

impl<T: ?Sized> Deref for Leaked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is never freed, and only shared references to it are given away.
        unsafe { self.0.as_ref() }
    }
}

/// Entries of `N` words each, initially zero. They are never freed.
#[derive(Debug, Clone, Copy)]
pub struct Shared<const N: usize> {
    first: NonNull<[AtomicU64; N]>,
    len: usize,
}

impl<const N: usize> Shared<N> {
    /// Allocates `len` entries on the heap, for processes that share their memory.
    #[cfg(feature = "alloc")]
    pub fn leaked(len: usize) -> Self {
        let entries: &'static mut [[u64; N]] = alloc_crate::vec![[0; N]; len].leak();
        Self { first: NonNull::from(entries).cast(), len }
    }

    /// Maps `len` entries that a child shares even if it has its own copy of all other memory. Only pages that are
    /// written take up memory.
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

    fn entry(&self, index: usize) -> Option<&[AtomicU64; N]> {
        // SAFETY: the entry is within the memory, which is never unmapped and is accessed only by atomic operations.
        (index < self.len).then(|| unsafe { self.first.add(index).as_ref() })
    }

    /// Stores an entry; its last word is stored last. Does nothing if `index` is out of range. Only one process may
    /// write an entry; others may read it.
    pub fn set(&self, index: usize, value: [u64; N]) {
        if let Some(words) = self.entry(index) {
            for (word, value) in words.iter().zip(value) {
                word.store(value, Ordering::Release);
            }
        }
    }

    /// Reads an entry. The last word is read first, so everything that was stored before this word is visible as well.
    pub fn get(&self, index: usize) -> Option<[u64; N]> {
        let mut value = [0; N];
        for (word, value) in self.entry(index)?.iter().zip(&mut value).rev() {
            *value = word.load(Ordering::Acquire);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_words_of_their_own() {
        let shared = Shared::<3>::leaked(4);
        let reader = shared;
        assert_eq!(reader.get(3), Some([0; 3]));
        shared.set(3, [1, 2, 3]);
        shared.set(4, [9; 3]);
        assert_eq!(
            (reader.get(2), reader.get(3), reader.get(4)),
            (Some([0; 3]), Some([1, 2, 3]), None)
        );
    }

    #[test]
    fn what_the_last_word_announces_is_there() {
        struct Sent(Shared<2>);
        // SAFETY: the memory consists of atomics and is never freed.
        unsafe impl Send for Sent {}
        let shared = Shared::<2>::leaked(1);
        let writer = Sent(shared);
        let writing = std::thread::spawn(move || {
            let Sent(shared) = { writer };
            (1..200).for_each(|round| shared.set(0, [round, round]));
        });
        while !writing.is_finished() {
            let Some([first, last]) = shared.get(0) else { panic!("in range") };
            assert!(first >= last, "{first} {last}");
        }
        writing.join().unwrap();
        assert_eq!(shared.get(0), Some([199, 199]));
    }
}
