//! SHA-256 (FIPS 180-4), used only for the names of sockets: each start hashes one or two blocks.
//!
//! The crate sha2 would bring six other crates. It also executes CPUID to detect CPU features, which traps in a virtual
//! machine and takes longer than hashing both blocks.

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

/// Returns the digest of `message`.
pub fn digest(message: &[u8]) -> [u8; 32] {
    let mut state = START;
    let mut blocks = message.chunks_exact(64);
    for block in &mut blocks {
        compress(&mut state, block);
    }
    // The rest of the message, a 1 bit, zeros, and the length in bits; together one block or two.
    let rest = blocks.remainder();
    let mut last = [0; 128];
    let length = if rest.len() < 56 { 64 } else { 128 };
    let padding = rest.iter().chain([0x80].iter());
    last.iter_mut().zip(padding).for_each(|(to, from)| *to = *from);
    let bits = (message.len() as u64 * 8).to_be_bytes();
    last.iter_mut().skip(length - 8).zip(bits).for_each(|(to, from)| *to = from);
    last.chunks_exact(64).take(length / 64).for_each(|block| compress(&mut state, block));
    let mut digest = [0; 32];
    let words = state.iter().flat_map(|word| word.to_be_bytes());
    digest.iter_mut().zip(words).for_each(|(to, from)| *to = from);
    digest
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
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
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            hex(&million),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }
}
