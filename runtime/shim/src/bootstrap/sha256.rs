//! SHA-256 (FIPS 180-4), used only for the names of sockets: each start hashes one or two blocks.
//!
//! The crate sha2 would bring six other crates. It also executes CPUID to detect CPU features, which traps in a virtual
//! machine and takes longer than hashing both blocks.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const ROUNDS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

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
