//! zstd windows: their maximum length, and the error for longer ones.

use crate::error::{Error, unfit};
use std::fmt::Display;
use std::io;

/// The window size that every decoder should support according to RFC 8878, as the exponent of a power of two: 8 MiB.
pub const WINDOW: u32 = 23;
/// The size of the longest supported window, as the exponent of a power of two: 128 MiB. The program zstd has the same
/// limit, and uses such windows with `--ultra -22`. Only one layer at a time uses a window longer than [`WINDOW`].
pub const LONG_WINDOW: u32 = 27;
/// The magic number of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns whether zstd's decoder failed because the window is too long. The crate `zstd` passes on only the error's
/// text (`ZSTD_error_frameParameter_windowTooLarge`).
pub fn is_too_long(error: &io::Error) -> bool {
    error.to_string().contains("requires too much memory")
}

/// Returns the error for a window longer than [`LONG_WINDOW`]. `frame` begins with the rejected frame: the decoder
/// consumes nothing of a frame that it rejects.
pub fn refused(what: impl Display, frame: &[u8]) -> Error {
    let most = (1u64 << LONG_WINDOW) >> 20;
    let length = asked(frame).map(|bytes| bytes.div_ceil(1 << 20)).filter(|&asked| asked > most);
    // The length is unknown if the header crosses the edge of a buffer.
    let length =
        length.map_or_else(|| "that is longer".to_owned(), |asked| format!("of {asked} MiB"));
    unfit!(
        "{what} wants a window of zstd {length}, and {most} MiB is the most that is read: compress it again with a smaller window \
         (zstd --long=27 at most)"
    )
}

/// Returns the window size that a frame declares (RFC 8878 section 3.1.1.1), or `None` if the frame's header is
/// incomplete.
fn asked(frame: &[u8]) -> Option<u64> {
    let (&descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    let is_single_segment = descriptor >> 5 & 1 == 1;
    if !is_single_segment {
        let window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // With a single segment, the window is the content size, which follows the dictionary id.
    let number = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = rest.get(number..)?;
    let mut bytes = [0; 8];
    let count = 1 << (descriptor >> 6);
    bytes[..count].copy_from_slice(length.get(..count)?);
    // The two-byte form starts at 256.
    Some(u64::from_le_bytes(bytes).saturating_add(if count == 2 { 256 } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&MAGIC, rest].concat()
    }

    #[test]
    fn headers_of_frames() {
        let zeros = [0; 8];
        assert_eq!(asked(&frame(&[0, 0])), Some(1024));
        assert_eq!(asked(&frame(&[4, 0x8f])), Some((1 << 27) / 8 * 15));
        assert_eq!(asked(&frame(&[0, 0xff])), Some((1 << 41) / 8 * 15));
        assert_eq!(asked(&frame(&[0x20, 9])), Some(9));
        assert_eq!(asked(&frame(&[0x61, 1, 1, 1])), Some(513));
        assert_eq!(asked(&frame(&[0xa3, 1, 2, 3, 4, 0, 0, 0, 16])), Some(1 << 28));
        assert_eq!(asked(&frame(&[&[0xe0][..], &[255; 8]].concat())), Some(u64::MAX));
        for short in [&frame(&[])[..], &frame(&[0]), &frame(&[0xe0, 1, 2]), &zeros, b""] {
            assert_eq!(asked(short), None, "{short:?}");
        }
    }
}
