//! Decompresses small files of gzip (RFC 1952).

use alloc::vec::Vec;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Decompresses a file of one member without optional fields, to at most `most` bytes. Returns `None` if it is damaged,
/// larger, or of another form.
pub(super) fn decompress(file: &[u8], most: usize) -> Option<Vec<u8>> {
    let (body, trailer) =
        file.strip_prefix(&[0x1f, 0x8b, 8, 0])?.get(6..)?.split_last_chunk::<8>()?;
    let out = decompress_to_vec_with_limit(body, most).ok()?;
    let sums = [crc(&out), u32::try_from(out.len()).ok()?].map(u32::to_le_bytes);
    (sums.as_flattened() == trailer).then_some(out)
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}
