//! SHA-256 (FIPS 180-4), for the names of the shim's sockets, one or two blocks at each start, and for images of
//! templates.
//!
//! The crate sha2 would bring six other crates. It also executes CPUID to detect CPU features, which traps in a virtual
//! machine and takes longer than hashing two blocks. Here only the digest of a file does, for which the CPU's own
//! instructions are several times as fast.

use rustix::fd::AsFd;
use rustix::io::{Errno, retry_on_intr};

/// FIPS 180-4, 4.2.2 and 5.3.3: the first 32 bits of the fractions of roots of the first primes.
const ROUNDS: [u32; 64] = roots(3);
const START: [u32; 8] = roots(2);

const fn roots<const N: usize>(degree: u32) -> [u32; N] {
    let (mut roots, mut count, mut number) = ([0; N], 0, 2);
    while count < N {
        let mut divisor = 2;
        while number % divisor != 0 {
            divisor += 1;
        }
        if divisor == number {
            roots[count] = fraction(number, degree);
            count += 1;
        }
        number += 1;
    }
    roots
}

/// Returns the first 32 bits behind the point of a root, which is less than 32.
const fn fraction(number: u128, degree: u32) -> u32 {
    let (mut root, mut bit) = (0_u128, 1 << 36);
    while bit > 0 {
        if (root | bit).pow(degree) <= number << (32 * degree) {
            root |= bit;
        }
        bit >>= 1;
    }
    let [a, b, c, d, ..] = root.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Hashes whole blocks of 64 bytes.
type Compress = fn(&mut [u32; 8], &[u8]);

/// Returns the digest of `message`.
pub fn digest(message: &[u8]) -> [u8; 32] {
    finish(START, 0, message, compress)
}

/// Returns the digest of a file's content, from its offset on.
///
/// # Errors
/// Those of read(2).
pub fn digest_file(file: impl AsFd) -> Result<[u8; 32], Errno> {
    let compress = fastest();
    let mut buffer = [0; 1 << 16];
    let (mut state, mut before) = (START, 0);
    loop {
        let mut length = 0;
        while let Some(room @ [_, ..]) = buffer.get_mut(length..) {
            match retry_on_intr(|| rustix::io::read(&file, &mut *room))? {
                0 => {
                    let rest = buffer.get(..length).unwrap_or_default();
                    return Ok(finish(state, before, rest, compress));
                }
                read => length += read,
            }
        }
        compress(&mut state, &buffer);
        before += length;
    }
}

/// Hashes the end of a message, after `before` bytes of whole blocks.
fn finish(mut state: [u32; 8], before: usize, end: &[u8], compress: Compress) -> [u8; 32] {
    let blocks = end.chunks_exact(64);
    let rest = blocks.remainder();
    compress(&mut state, end.get(..end.len() - rest.len()).unwrap_or_default());
    // The rest of the message, a 1 bit, zeros, and the length in bits; together one block or two.
    let mut last = [0; 128];
    let length = if rest.len() < 56 { 64 } else { 128 };
    let padding = rest.iter().chain([0x80].iter());
    last.iter_mut().zip(padding).for_each(|(to, from)| *to = *from);
    let bits = ((before + end.len()) as u64 * 8).to_be_bytes();
    last.iter_mut().skip(length - 8).zip(bits).for_each(|(to, from)| *to = from);
    compress(&mut state, last.get(..length).unwrap_or_default());
    let mut digest = [0; 32];
    let words = state.iter().flat_map(|word| word.to_be_bytes());
    digest.iter_mut().zip(words).for_each(|(to, from)| *to = from);
    digest
}

/// Returns the fastest way of this CPU.
fn fastest() -> Compress {
    #[cfg(target_arch = "x86_64")]
    if x86::has_instructions() {
        return x86::compress;
    }
    compress
}

fn compress(state: &mut [u32; 8], blocks: &[u8]) {
    blocks.chunks_exact(64).for_each(|block| compress_block(state, block));
}

fn compress_block(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..64 {
        let [a, b] = [words[at - 15], words[at - 2]];
        let first = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
        let second = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
        let sum = words[at - 16].wrapping_add(first).wrapping_add(words[at - 7]);
        words[at] = sum.wrapping_add(second);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, round) in words.iter().zip(ROUNDS) {
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let first = [sum, choice, round, *word].iter().fold(h, |sum, term| sum.wrapping_add(*term));
        let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = sum.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, change) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(change);
    }
}

/// The SHA extensions of x86.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::ROUNDS;
    use core::arch::x86_64::*;

    pub fn has_instructions() -> bool {
        // SSSE3 and SSE4.1; SHA.
        const SSE: u32 = 1 << 9 | 1 << 19;
        __cpuid(0).eax >= 7 && __cpuid(1).ecx & SSE == SSE && __cpuid_count(7, 0).ebx & 1 << 29 != 0
    }

    pub fn compress(state: &mut [u32; 8], blocks: &[u8]) {
        // SAFETY: the CPU has these instructions.
        unsafe { compress_by_instructions(state, blocks) }
    }

    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn compress_by_instructions(state: &mut [u32; 8], blocks: &[u8]) {
        let load = |[a, b, c, d]: [u32; 4]| {
            let half = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)).cast_signed();
            _mm_set_epi64x(half(c, d), half(a, b))
        };
        let [a, b, c, d, e, f, g, h] = *state;
        // The order of the instructions.
        let (mut abef, mut cdgh) = (load([f, e, b, a]), load([h, g, d, c]));
        let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let constants = ROUNDS.as_chunks().0.iter().map(|four| load(*four));
        let mut of_round = [_mm_setzero_si128(); 16];
        of_round.iter_mut().zip(constants).for_each(|(to, from)| *to = from);
        for block in blocks.as_chunks::<64>().0 {
            let (old_abef, old_cdgh) = (abef, cdgh);
            let words = |bytes: &[u8; 16]| {
                let [low, high] = [&bytes[..8], &bytes[8..]]
                    .map(|half| i64::from_le_bytes(half.try_into().unwrap_or_default()));
                _mm_shuffle_epi8(_mm_set_epi64x(high, low), big_endian)
            };
            let [mut w, mut x, mut y, mut z] =
                [0, 1, 2, 3].map(|at| words(&block.as_chunks().0[at]));
            // Four rounds, and the words of the rounds that are 16 later.
            macro_rules! rounds {
                ($w:ident $x:ident $y:ident $z:ident $k:expr) => {
                    let sum = _mm_add_epi32($w, $k);
                    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
                    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32::<0x0e>(sum));
                    let sum = _mm_sha256msg1_epu32($w, $x);
                    let sum = _mm_add_epi32(sum, _mm_alignr_epi8::<4>($z, $y));
                    $w = _mm_sha256msg2_epu32(sum, $z);
                };
            }
            for [first, second, third, fourth] in of_round.as_chunks().0 {
                rounds!(w x y z *first);
                rounds!(x y z w *second);
                rounds!(y z w x *third);
                rounds!(z w x y *fourth);
            }
            abef = _mm_add_epi32(abef, old_abef);
            cdgh = _mm_add_epi32(cdgh, old_cdgh);
        }
        let read = |four| {
            let number = |of: i32| of.cast_unsigned();
            [
                number(_mm_extract_epi32::<0>(four)),
                number(_mm_extract_epi32::<1>(four)),
                number(_mm_extract_epi32::<2>(four)),
                number(_mm_extract_epi32::<3>(four)),
            ]
        };
        let ([f, e, b, a], [h, g, d, c]) = (read(abef), read(cdgh));
        *state = [a, b, c, d, e, f, g, h];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec;

    fn hex(message: &[u8]) -> String {
        digest(message).iter().map(|byte| std::format!("{byte:02x}")).collect()
    }

    /// The messages are FIPS 180-4's examples, and others with lengths near the end of a block, whose digests are from
    /// sha256sum(1).
    #[test]
    fn known_digests() {
        let known = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ];
        for (message, digest) in known {
            assert_eq!(hex(message.as_bytes()), digest);
        }
        for length in [0, 1, 55, 56, 63, 64, 65, 119, 128, (1 << 16) - 1, 1 << 16, (1 << 16) + 65] {
            let message: std::vec::Vec<u8> =
                (0..length).map(|at: usize| at.to_le_bytes()[0]).collect();
            let file =
                rustix::fs::memfd_create("message", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            crate::stdio::write_all(&file, &message).unwrap();
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
            assert_eq!(digest_file(&file).unwrap(), digest(&message), "{length}");
        }
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            hex(&million),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }
}
