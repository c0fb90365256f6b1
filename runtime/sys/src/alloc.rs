//! The allocator of the libc-free binary. Block sizes are powers of two, and each size has a free list. If a list is
//! empty, a bump pointer supplies a new block.
//!
//! The start of a container allocates a few tens of KiB, then the process exits. `events` and a foreground `run` may
//! run for days, so freed blocks are reused. The allocator is single-threaded: the runtime never creates a thread.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether freed blocks are overwritten with zeros.
static WIPES: AtomicBool = AtomicBool::new(false);

/// Makes the allocator overwrite each block with zeros when the block is freed. Meant for a long-running process whose
/// memory contains secrets of other programs.
pub fn wipe_freed() {
    WIPES.store(true, Ordering::Relaxed);
}

/// The size in bytes of the arena in .bss, which is used before the first mmap(2). Untouched pages cost nothing.
const ARENA: usize = 512 * 1024;
/// The number of bytes that mmap(2) maps at a time after the arena is used up. A block of more than half this size gets
/// a mapping of its own.
const CHUNK: usize = 1024 * 1024;
const SMALLEST_SHIFT: u32 = 4;
const CLASSES: usize = 40;
/// The largest alignment in bytes. A block of up to this size is aligned to its own size. Every page size is a multiple
/// of this number.
const LARGEST_ALIGN: usize = 4096;

#[repr(align(4096))]
struct Arena(#[allow(dead_code, reason = "used by address only")] MaybeUninit<[u8; ARENA]>);

/// The allocator's state: initially all zero, so that it lies in .bss.
struct State {
    /// The unused rest of the arena or of the newest chunk lies between `next` and `end`. Both are null before the
    /// first allocation.
    next: *mut u8,
    end: *mut u8,
    free: [*mut u8; CLASSES],
}

/// The allocator; see the module documentation. State and arena are separate cells, because the owner of a block may
/// write to the arena while the state is borrowed.
pub struct Allocator {
    state: UnsafeCell<State>,
    arena: UnsafeCell<Arena>,
}

// SAFETY: callers of `new` promise that only one thread at a time uses the allocator.
unsafe impl Sync for Allocator {}

impl Allocator {
    /// Returns an empty heap, for [`entry!`](crate::entry!).
    ///
    /// # Safety
    /// The heap must never be used concurrently. The process must have one thread; a process that shares its memory,
    /// such as init, must neither allocate nor free (builds with `--cfg dayfly_faults` check this).
    pub const unsafe fn new() -> Self {
        Self {
            state: UnsafeCell::new(State {
                next: ptr::null_mut(),
                end: ptr::null_mut(),
                free: [ptr::null_mut(); CLASSES],
            }),
            arena: UnsafeCell::new(Arena(MaybeUninit::uninit())),
        }
    }
}

/// Returns the size class of `layout`: log2 of the block size.
fn class(layout: Layout) -> u32 {
    let size = layout.size().max(layout.align()).max(1 << SMALLEST_SHIFT);
    usize::BITS - (size - 1).leading_zeros()
}

/// Maps new pages; returns null on failure.
#[cfg(not(miri))]
fn map(length: usize) -> *mut u8 {
    // PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let got =
        unsafe { crate::raw::call(crate::raw::nr::MMAP, [0, length, 3, 0x22, usize::MAX, 0]) };
    got.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Allocates from Miri's own allocator and never frees: Miri supports no system calls.
#[cfg(miri)]
fn map(length: usize) -> *mut u8 {
    match Layout::from_size_align(length, LARGEST_ALIGN) {
        // SAFETY: the length is never zero.
        #[cfg(feature = "alloc")]
        Ok(layout) if length < 1 << 32 => unsafe { alloc_crate::alloc::alloc(layout) },
        _ => ptr::null_mut(),
    }
}

impl State {
    fn bump(&mut self, arena: *mut u8, size: usize) -> *mut u8 {
        if self.end.is_null() {
            self.next = arena;
            self.end = arena.wrapping_add(ARENA);
        }
        let before = self.next.addr().wrapping_neg() & (size.min(LARGEST_ALIGN) - 1);
        let left = self.end.addr() - self.next.addr();
        if before.checked_add(size).is_some_and(|wanted| wanted <= left) {
            let start = self.next.wrapping_add(before);
            self.next = start.wrapping_add(size);
            return start;
        }
        let length = if size > CHUNK / 2 { size } else { CHUNK };
        let base = map(length);
        if !base.is_null() && length == CHUNK {
            self.next = base.wrapping_add(size);
            self.end = base.wrapping_add(length);
        }
        base
    }
}

// SAFETY: blocks are disjoint, at least as large as requested, and aligned to their size up to a page; larger
// alignments return null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        crate::stack::refuse_shared();
        if layout.align() > LARGEST_ALIGN {
            return ptr::null_mut();
        }
        let class = class(layout);
        let Some(size) = 1usize.checked_shl(class) else { return ptr::null_mut() };
        // SAFETY: one thread by `new`, and no reference to the state is held across calls.
        let state = unsafe { &mut *self.state.get() };
        let Some(head) = state.free.get_mut(class as usize) else { return ptr::null_mut() };
        if head.is_null() {
            return state.bump(self.arena.get().cast(), size);
        }
        let block = *head;
        // SAFETY: a free block holds the pointer to the next one in its first bytes.
        *head = unsafe { block.cast::<*mut u8>().read() };
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        crate::stack::refuse_shared();
        if WIPES.load(Ordering::Relaxed) {
            // SAFETY: the block has the length of its class, and its owner has given it up.
            unsafe { ptr::write_bytes(block, 0, 1 << class(layout)) };
        }
        // SAFETY: as in alloc.
        let state = unsafe { &mut *self.state.get() };
        if let Some(head) = state.free.get_mut(class(layout) as usize) {
            // SAFETY: the block belongs to the allocator again and is at least 16 bytes large.
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
        // SAFETY: the contracts of alloc and dealloc; the blocks are disjoint.
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

/// Allocates a block, to test that test builds detect forbidden allocations.
#[cfg(all(dayfly_faults, feature = "alloc"))]
pub fn provoke(value: usize) {
    drop(core::hint::black_box(alloc_crate::boxed::Box::new(value)));
}

/// Does nothing: there is no heap.
#[cfg(all(dayfly_faults, not(feature = "alloc")))]
pub fn provoke(_: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn blocks_are_disjoint_aligned_and_used_again() {
        // SAFETY: no other thread uses it.
        static HEAP: Allocator = unsafe { Allocator::new() };
        let heap = &HEAP;
        let mut live: Vec<(*mut u8, Layout)> = Vec::new();
        let mut seed = 7usize;
        for _ in 0..if cfg!(miri) { 500 } else { 5000 } {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let layout = Layout::from_size_align(1 + (seed >> 33) % 9000, 1 << ((seed >> 20) % 7));
            let layout = layout.unwrap();
            // SAFETY: sizes are not zero, and every block is freed with its own layout.
            unsafe {
                let block = heap.alloc(layout);
                assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                block.write_bytes(7, layout.size());
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
        // SAFETY: no other thread uses it.
        static HEAP: Allocator = unsafe { Allocator::new() };
        let heap = &HEAP;
        // SAFETY: memory is only read.
        unsafe {
            assert!(heap.alloc(Layout::from_size_align(1 << 46, 8).unwrap()).is_null());
            assert!(heap.alloc(Layout::from_size_align(8, 8192).unwrap()).is_null());
        }
    }

    #[test]
    fn blocks_stay_their_owners_while_others_come_and_go() {
        // SAFETY: no other thread uses it.
        static HEAP: Allocator = unsafe { Allocator::new() };
        let layout = Layout::from_size_align(24, 8).unwrap();
        // SAFETY: each block is used while it is allocated, and freed once with its layout.
        unsafe {
            let first = HEAP.alloc(layout);
            let kept = &mut *first.cast::<[u64; 3]>();
            let second = HEAP.alloc(layout);
            second.write_bytes(1, layout.size());
            HEAP.dealloc(second, layout);
            *kept = [1, 2, 3];
            assert_eq!(HEAP.alloc(layout), second);
            let moved = HEAP.realloc(first, layout, 900_000);
            assert_eq!(moved.cast::<[u64; 3]>().read(), [1, 2, 3]);
            moved.add(899_999).write(7);
        }
    }
}
