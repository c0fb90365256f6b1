//! Detects the compression of a blob or an archive by its first bytes, because media types and file names can be wrong.

/// A supported compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// Returns the compression of data that begins with `start`; four bytes suffice.
    pub fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // The second pattern is a skippable frame (RFC 8878 section 3.1.2). The output of pzstd begins with such a
            // frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes() {
        let of = Compression::of;
        assert_eq!(of(&[0x1f, 0x8b, 8, 0]), Some(Compression::Gzip));
        assert_eq!(of(&[0x28, 0xb5, 0x2f, 0xfd, 4]), Some(Compression::Zstd));
        assert_eq!(of(&[0x5d, 0x2a, 0x4d, 0x18]), Some(Compression::Zstd));
        assert_eq!(of(&[0x60, 0x2a, 0x4d, 0x18]), None);
        assert_eq!(of(&[0x28, 0xb5, 0x2f]), None);
        assert_eq!(of(b"etc/passwd\0"), None);
        assert_eq!(of(&[]), None);
    }
}
