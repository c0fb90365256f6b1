//! Measures the memory that a thread has allocated, now and at its peak. A global allocator counts the bytes, so that
//! the fuzzed code needs no changes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of each thread's bytes.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Memory may be freed while the thread ends and its thread-local variables no longer exist; such bytes are not
    // counted.
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
        // While a block is reallocated, the old and the new one may exist at the same time.
        count(size.cast_signed());
        count(-layout.size().cast_signed());
        // SAFETY: the caller fulfils the contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Returns the result of `work`, and the peak of the bytes that this thread allocated during `work`, not counting the
/// bytes allocated before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = IN_USE.get();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before).max(0).cast_unsigned() as u64)
}
