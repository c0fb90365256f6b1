//! The format of criu's images: two magic numbers, then messages, each after its length.

use alloc::vec::Vec;

#[cfg(test)]
mod tests;

/// The first bytes of all images that are not the inventory, and the magic numbers of types of images (criu's magic.h).
const COMMON: [u8; 4] = 0x5456_4319_u32.to_le_bytes();
/// The cgroups of the processes.
pub(super) const CGROUPS: u32 = 0x5938_3330;
/// The memory map of a process.
pub(super) const MEMORY_MAP: u32 = 0x5608_4025;
/// The mappings of a process.
pub(super) const MAPPINGS: u32 = 0x5749_2820;
/// A user namespace.
pub(super) const USER_NAMESPACE: u32 = 0x5547_4906;

/// Returns the messages of an image of the type `magic`, or `None` if the image has another type or is truncated.
pub(super) fn messages(image: &[u8], magic: u32) -> Option<Vec<&[u8]>> {
    let mut rest = image.strip_prefix(&COMMON)?.strip_prefix(&magic.to_le_bytes())?;
    let mut messages = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (message, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        messages.push(message);
        rest = after;
    }
    rest.is_empty().then_some(messages)
}
