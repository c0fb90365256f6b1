//! The allocator of the libc-free binary: a bump pointer over power-of-two free lists.
//!
//! A start allocates a few tens of KiB and ends; `events` and a foreground `run` may live for days, so
//! what they free is used again. Single-threaded: the runtime never makes a thread.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

/// Bytes in .bss that serve before the first mmap; untouched pages cost nothing.
const ARENA: usize = 512 * 1024;
/// Bytes asked of the kernel when the arena is used up.
const CHUNK: usize = 1024 * 1024;
const SMALLEST_SHIFT: u32 = 4;
const CLASSES: usize = 40;

#[repr(align(4096))]
struct Arena(#[allow(dead_code, reason = "used by address only")] [u8; ARENA]);

struct State {
    arena: Arena,
    next: usize,
    end: usize,
    free: [*mut u8; CLASSES],
}

/// See the module's text.
pub struct Allocator(UnsafeCell<State>);

// SAFETY: the process has one thread, and the init actor, which may share memory with the host
// actor, does not allocate.
unsafe impl Sync for Allocator {}

impl Allocator {
    /// An empty heap.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(State {
            arena: Arena([0; ARENA]),
            next: 0,
            end: 0,
            free: [ptr::null_mut(); CLASSES],
        }))
    }
}

impl Default for Allocator {
    fn default() -> Self {
        Self::new()
    }
}

/// The class that holds `layout`: log2 of the block size.
fn class(layout: Layout) -> u32 {
    let size = layout.size().max(layout.align()).max(1 << SMALLEST_SHIFT);
    usize::BITS - (size - 1).leading_zeros()
}

impl State {
    fn bump(&mut self, size: usize) -> *mut u8 {
        if self.end == 0 {
            self.next = (&raw const self.arena).addr();
            self.end = self.next + ARENA;
        }
        let align = size.min(4096);
        let start = (self.next + align - 1) & !(align - 1);
        if start.checked_add(size).is_some_and(|end| end <= self.end) {
            self.next = start + size;
            return start as *mut u8;
        }
        let length = if size > CHUNK / 2 { size } else { CHUNK };
        // PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let got =
            unsafe { crate::raw::call(crate::raw::nr::MMAP, [0, length, 3, 0x22, usize::MAX, 0]) };
        let Ok(base) = got else { return ptr::null_mut() };
        if length == CHUNK {
            self.next = base + size;
            self.end = base + length;
        }
        base as *mut u8
    }
}

// SAFETY: blocks are disjoint, at least as large as asked, and aligned to their size up to a page;
// larger alignments than a page are refused with null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 4096 {
            return ptr::null_mut();
        }
        let class = class(layout);
        let Some(size) = 1usize.checked_shl(class) else { return ptr::null_mut() };
        // SAFETY: one thread, and no reference to the state is held across calls.
        let state = unsafe { &mut *self.0.get() };
        let Some(head) = state.free.get_mut(class as usize) else { return ptr::null_mut() };
        if head.is_null() {
            return state.bump(size);
        }
        let block = *head;
        // SAFETY: a free block holds the pointer to the next one in its first bytes.
        *head = unsafe { block.cast::<*mut u8>().read() };
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in alloc.
        let state = unsafe { &mut *self.0.get() };
        if let Some(head) = state.free.get_mut(class(layout) as usize) {
            // SAFETY: the block is ours again and at least 16 bytes large.
            unsafe { block.cast::<*mut u8>().write(*head) };
            *head = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(new_size, layout.align()) else {
            return ptr::null_mut();
        };
        if class(wanted) == class(layout) {
            return block;
        }
        // SAFETY: alloc's and dealloc's contracts, and the blocks are disjoint.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn blocks_are_disjoint_aligned_and_used_again() {
        static HEAP: Allocator = Allocator::new();
        let heap = &HEAP;
        let mut live: Vec<(*mut u8, Layout)> = Vec::new();
        let mut seed = 7usize;
        for round in 0..5000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let layout = Layout::from_size_align(1 + (seed >> 33) % 9000, 1 << ((seed >> 20) % 7));
            let layout = layout.unwrap();
            // SAFETY: sizes are not zero, and every block is freed with its own layout.
            unsafe {
                let block = heap.alloc(layout);
                assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                block.write_bytes(round as u8, layout.size());
                live.push((block, layout));
                if live.len() > 40 {
                    let (block, layout) = live.swap_remove((seed >> 40) % live.len());
                    heap.dealloc(block, layout);
                }
            }
        }
        live.sort_by_key(|(block, _)| block.addr());
        for pair in live.windows(2) {
            assert!(pair[0].0.addr() + pair[0].1.size() <= pair[1].0.addr());
        }
    }

    #[test]
    fn absurd_requests_fail_cleanly() {
        static HEAP: Allocator = Allocator::new();
        let heap = &HEAP;
        // SAFETY: nothing is written.
        unsafe {
            assert!(heap.alloc(Layout::from_size_align(1 << 46, 8).unwrap()).is_null());
            assert!(heap.alloc(Layout::from_size_align(8, 8192).unwrap()).is_null());
        }
    }
}
