//! Measures a thread's memory, in use and at its peak. A global allocator counts the bytes, so that the fuzzed code
//! needs no changes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts the bytes of each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread-local variable may be freed while its thread ends.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(in_use.get())));
    });
}

// SAFETY: each call is the system allocator's with the same arguments; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller fulfils the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller fulfils the contract.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks exist while the contents are copied.
        count(size.cast_signed());
        count(-layout.size().cast_signed());
        // SAFETY: the caller fulfils the contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Returns the result of `work`, and the peak of the bytes that this thread had allocated during `work`, in addition to
/// those before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = IN_USE.get();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before).max(0).cast_unsigned() as u64)
}
