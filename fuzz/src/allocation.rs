//! How much memory is in use, and was at most. It is counted below everything that is fuzzed, which cannot know.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what each thread has.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees its own variables last.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(in_use.get())));
    });
}

// SAFETY: each call is the system allocator's with the same arguments; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while the contents are copied.
        count(size.cast_signed());
        count(-layout.size().cast_signed());
        // SAFETY: as the caller says.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What `work` returns, and how many bytes more than before this thread had in use at most meanwhile.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = IN_USE.get();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before).max(0).cast_unsigned() as u64)
}
