//! Memory routines that the compiler calls by name. Other programs get them from libc.
//!
//! Almost every call copies a few bytes (strings, small structures), for which `rep movsb` takes longer to start than
//! to copy. Such short blocks are copied through registers; the first and the last part may overlap. Longer blocks are
//! copied by string instructions on x86-64, and through pairs of vector registers on aarch64. The string instructions
//! are fast on every x86 CPU of the last decade, so CPUID, which costs microseconds in a virtual machine, is not
//! consulted.

/// The largest block in bytes that is moved through registers.
const SHORT: usize = 64;

/// Loads a value from an address without alignment.
///
/// # Safety
/// `at + offset` must point to `size_of::<T>()` valid bytes.
#[inline(always)]
unsafe fn load<T: Copy>(at: *const u8, offset: usize) -> T {
    // SAFETY: the caller's contract.
    unsafe { at.add(offset).cast::<T>().read_unaligned() }
}

/// Stores a value at an address without alignment.
///
/// # Safety
/// As [`load`]; the bytes must also be writable.
#[inline(always)]
unsafe fn store<T: Copy>(at: *mut u8, offset: usize, value: T) {
    // SAFETY: the caller's contract.
    unsafe { at.add(offset).cast::<T>().write_unaligned(value) }
}

/// Copies up to [`SHORT`] bytes. All bytes are read before the first is written, so source and destination may overlap.
///
/// # Safety
/// Both pointers must be valid for `len` bytes, and `len` must be at most `SHORT`.
#[inline(always)]
unsafe fn copy_short(dst: *mut u8, src: *const u8, len: usize) {
    macro_rules! ends {
        ($word:ty) => {{
            let last = len - size_of::<$word>();
            let (a, b): ($word, $word) = (load(src, 0), load(src, last));
            store(dst, 0, a);
            store(dst, last, b);
        }};
    }
    // SAFETY: each part lies within the first or the last bytes of `len`.
    unsafe {
        match len {
            0 => {}
            1 => store::<u8>(dst, 0, load(src, 0)),
            2..=3 => ends!(u16),
            4..=7 => ends!(u32),
            8..=15 => ends!(u64),
            16..=32 => ends!(u128),
            _ => {
                let (a, b): (u128, u128) = (load(src, 0), load(src, 16));
                let (c, d): (u128, u128) = (load(src, len - 32), load(src, len - 16));
                store(dst, 0, a);
                store(dst, 16, b);
                store(dst, len - 32, c);
                store(dst, len - 16, d);
            }
        }
    }
}

/// memcpy(3)
///
/// # Safety
/// As memcpy(3).
#[inline(always)]
pub unsafe fn copy_forward(dst: *mut u8, src: *const u8, len: usize) {
    if len <= SHORT {
        // SAFETY: the caller gives `len` valid bytes at both ends.
        return unsafe { copy_short(dst, src, len) };
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller gives `len` valid bytes at both ends.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") len => _, inout("rdi") dst => _,
            inout("rsi") src => _, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: `len` bytes are valid at both pointers, and make at least one whole block; at the end the pointers are at
    // the remaining bytes. Each block is read whole before it is written, and unread bytes lie after the written ones.
    unsafe {
        let (mut dst, mut src) = (dst, src);
        core::arch::asm!(
            "2:",
            "ldp {a:q}, {b:q}, [{src}], #32",
            "ldp {c:q}, {d:q}, [{src}], #32",
            "subs {blocks}, {blocks}, #1",
            "stp {a:q}, {b:q}, [{dst}], #32",
            "stp {c:q}, {d:q}, [{dst}], #32",
            "b.ne 2b",
            dst = inout(reg) dst, src = inout(reg) src, blocks = inout(reg) len / SHORT => _,
            a = out(vreg) _, b = out(vreg) _, c = out(vreg) _, d = out(vreg) _,
            options(nostack),
        );
        copy_short(dst, src, len % SHORT);
    }
}

/// memmove(3)
///
/// # Safety
/// As memmove(3).
#[inline(always)]
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    if len <= SHORT || (dst as usize).wrapping_sub(src as usize) >= len {
        // SAFETY: short copies may overlap; otherwise dst is not inside [src, src+len), so a forward copy is correct.
        return unsafe { copy_forward(dst, src, len) };
    }
    let mut end = len;
    while end > SHORT {
        end -= SHORT;
        // SAFETY: pieces are copied from the end to the beginning; each is read whole before it is written.
        unsafe { copy_short(dst.add(end), src.add(end), SHORT) };
    }
    // SAFETY: the remaining `end` bytes are at the beginning.
    unsafe { copy_short(dst, src, end) };
}

/// memset(3)
///
/// # Safety
/// As memset(3).
#[inline(always)]
pub unsafe fn set(dst: *mut u8, byte: u8, len: usize) {
    if let 8..=32 = len {
        // The word is computed by multiplication, because without optimisation the compiler would fill an array of
        // eight bytes by calling memset, which is this function.
        let word = u64::from(byte) * 0x0101_0101_0101_0101;
        // SAFETY: all within `len` bytes; the parts overlap.
        unsafe {
            store(dst, 0, word);
            store(dst, len - 8, word);
            if len > 16 {
                store(dst, 8, word);
                store(dst, len - 16, word);
            }
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller gives `len` valid bytes.
    unsafe {
        core::arch::asm!("rep stosb", inout("rcx") len => _, inout("rdi") dst => _,
            in("al") byte, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: all within `len` bytes; the parts overlap.
    unsafe {
        match len {
            0..8 => {
                for at in 0..len {
                    // The volatile write keeps the compiler from calling memset here.
                    dst.add(at).write_volatile(byte);
                }
            }
            8..SHORT => {
                set(dst, byte, 32);
                set(dst.add(len - 32), byte, 32);
            }
            _ => fill_blocks(dst, byte, len),
        }
    }
}

/// Fills blocks of [`SHORT`] bytes. The last block ends where the range ends, and may overlap the one before.
///
/// # Safety
/// `dst` must be valid for `len` bytes, and `len` must be at least `SHORT`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn fill_blocks(dst: *mut u8, byte: u8, len: usize) {
    // SAFETY: all within `len` bytes.
    unsafe {
        core::arch::asm!(
            "dup {v}.16b, {byte:w}",
            "2:",
            "stp {v:q}, {v:q}, [{dst}], #32",
            "subs {blocks}, {blocks}, #1",
            "stp {v:q}, {v:q}, [{dst}], #32",
            "b.ne 2b",
            "stp {v:q}, {v:q}, [{last}]",
            "stp {v:q}, {v:q}, [{last}, #32]",
            dst = inout(reg) dst => _, byte = in(reg) u32::from(byte), blocks = inout(reg) len / SHORT => _,
            last = in(reg) dst.add(len - SHORT), v = out(vreg) _,
            options(nostack),
        );
    }
}

/// memcmp(3)
///
/// # Safety
/// As memcmp(3).
#[inline(always)]
pub unsafe fn compare(a: *const u8, b: *const u8, len: usize) -> i32 {
    // Compares words as big-endian numbers, so that the first differing byte decides.
    let order = |x: u64, y: u64| i32::from(x > y) - i32::from(x < y);
    if len < 8 {
        // SAFETY: all within `len` bytes.
        return unsafe { compare_few(a, b, len) };
    }
    let mut i = 0;
    while i + 8 < len {
        // SAFETY: eight bytes from i on are within `len`.
        let (x, y): (u64, u64) = unsafe { (load(a, i), load(b, i)) };
        if x != y {
            return order(u64::from_be(x), u64::from_be(y));
        }
        i += 8;
    }
    // Compares the last eight bytes. If some of them were already compared above, those are equal. SAFETY: `len` is at
    // least eight.
    let (x, y): (u64, u64) = unsafe { (load(a, len - 8), load(b, len - 8)) };
    order(u64::from_be(x), u64::from_be(y))
}

/// Does the work of [`compare`] for fewer than eight bytes, the length of most compared strings.
///
/// # Safety
/// As memcmp(3).
#[inline(always)]
unsafe fn compare_few(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: all within `len` bytes.
    let text = |at: *const u8| unsafe {
        match len {
            0 => 0,
            1 => u32::from(load::<u8>(at, 0)),
            2..=3 => u32::from(u16::from_be(load(at, 0))) << 8 | u32::from(load::<u8>(at, len - 1)),
            _ => u32::from_be(load(at, 0)),
        }
    };
    let (x, y) = (text(a), text(b));
    if x != y || len <= 4 {
        return i32::from(x > y) - i32::from(x < y);
    }
    // SAFETY: as above; the parts overlap.
    let (x, y): (u32, u32) = unsafe { (load(a, len - 4), load(b, len - 4)) };
    let (x, y) = (u32::from_be(x), u32::from_be(y));
    i32::from(x > y) - i32::from(x < y)
}

/// strlen(3)
///
/// # Safety
/// As strlen(3).
#[inline(always)]
pub unsafe fn length(s: *const u8) -> usize {
    let mut i = 0;
    // SAFETY: the caller gives a NUL-terminated string.
    while unsafe { s.add(i).read_volatile() } != 0 {
        i += 1;
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|i| u8::try_from(i * 37 % 251).unwrap()).collect()
    }

    #[test]
    fn copies_of_every_length_and_overlap_are_whole() {
        for len in 0..200 {
            for shift in [0usize, 1, 3, 8, 17, 64, 65, 150] {
                for (from, to) in [(0, shift), (shift, 0)] {
                    let mut expected = bytes(400);
                    let mut memory = expected.clone();
                    expected.copy_within(from..from + len, to);
                    let base = memory.as_mut_ptr();
                    // SAFETY: within 400 bytes.
                    unsafe { copy(base.add(to), base.add(from), len) };
                    assert_eq!(memory, expected, "{len} bytes from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn sets_and_compares_as_the_standard_says() {
        for len in 0..150 {
            let mut memory = bytes(200);
            let mut expected = memory.clone();
            expected[3..3 + len].fill(0xa5);
            // SAFETY: within 200 bytes.
            unsafe { set(memory.as_mut_ptr().add(3), 0xa5, len) };
            assert_eq!(memory, expected);
            for at in 0..len {
                let (a, mut b) = (bytes(len), bytes(len));
                b[at] = b[at].wrapping_add(1);
                // SAFETY: both are `len` bytes.
                let order = unsafe { compare(a.as_ptr(), b.as_ptr(), len) };
                assert_eq!(order.cmp(&0), a.cmp(&b), "{len} {at}");
            }
        }
        // SAFETY: a C string.
        assert_eq!(unsafe { length(c"seven..".as_ptr().cast()) }, 7);
    }

    /// Compares the results with those of std's functions, for different alignments of source and destination.
    #[test]
    fn long_ones_at_every_alignment() {
        for len in (0..260).chain([511, 512, 513, 4095, 4160, 65536]) {
            for (from, to) in (0..16).map(|at| (at, at * 7 % 16)).chain([(0, 15), (3, 80), (80, 3)])
            {
                let source = bytes(len + 96);
                let mut copied = bytes(len + 96);
                let mut expected = copied.clone();
                expected[to..to + len].copy_from_slice(&source[from..from + len]);
                // SAFETY: within len + 96 bytes, of two vectors.
                unsafe {
                    copy_forward(copied.as_mut_ptr().add(to), source.as_ptr().add(from), len)
                };
                assert!(copied == expected, "copy {len} bytes from {from} to {to}");
                expected.copy_within(from..from + len, to);
                // SAFETY: within len + 96 bytes.
                unsafe { copy(copied.as_mut_ptr().add(to), copied.as_ptr().add(from), len) };
                assert!(copied == expected, "move {len} bytes from {from} to {to}");
                expected[to..to + len].fill(0x5a);
                // SAFETY: within len + 96 bytes.
                unsafe { set(copied.as_mut_ptr().add(to), 0x5a, len) };
                assert!(copied == expected, "set {len} bytes at {to}");
            }
        }
    }

    #[test]
    fn comparisons_at_every_alignment() {
        for len in 0..64 {
            for shift in 0..9 {
                let a = bytes(len);
                let mut b = std::vec![0; shift];
                b.extend(&a);
                // SAFETY: both are `len` bytes from there on.
                assert_eq!(unsafe { compare(a.as_ptr(), b[shift..].as_ptr(), len) }, 0);
                for at in 0..len {
                    b[shift + at] ^= 0x80;
                    // SAFETY: as above.
                    let order = unsafe { compare(a.as_ptr(), b[shift..].as_ptr(), len) };
                    assert_eq!(order.cmp(&0), a[..].cmp(&b[shift..]), "{len} {shift} {at}");
                    b[shift + at] ^= 0x80;
                }
            }
        }
    }
}
