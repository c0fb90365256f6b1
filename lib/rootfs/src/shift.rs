//! Conversion of an image's ids to those of a container's range, where they are stored in a file and not mapped by a
//! mount.

use alloc::vec::Vec;

use crate::ids::RANGE;

/// Maps an id of the image to an id of the host, where root of the image is mapped to `first`. An id beyond the range
/// becomes the container's overflow id, 65534.
pub(crate) fn id(id: u32, first: Option<u32>) -> u32 {
    const NOBODY: u32 = 65534;
    match first {
        Some(first) => first.saturating_add(if id < RANGE { id } else { NOBODY }),
        None => id,
    }
}

/// Converts file capabilities (capabilities(7), version 2 or 3) to version 3 for a user namespace whose root is `root`.
/// Version 2 would grant the capabilities on the host.
pub(crate) fn capabilities(value: &[u8], root: u32) -> Vec<u8> {
    const LENGTH: usize = 20;
    const FLAGS: u32 = 0x00ff_ffff;
    const VERSION_3: u32 = 0x0300_0000;
    let Some((head, rest)) = value.split_first_chunk::<4>() else { return value.to_vec() };
    let Some(sets) = rest.get(..LENGTH - 4) else { return value.to_vec() };
    let own = rest.get(LENGTH - 4..LENGTH).and_then(|own| own.first_chunk::<4>());
    let own = own.map_or(0, |own| u32::from_le_bytes(*own));
    let head = VERSION_3 | (u32::from_le_bytes(*head) & FLAGS);
    let mut bytes = head.to_le_bytes().to_vec();
    bytes.extend_from_slice(sets);
    bytes.extend_from_slice(&(root + own.min(RANGE - 1)).to_le_bytes());
    bytes
}

/// Converts the users and groups in an access control list, in the form of its extended attribute (linux/posix_acl_xattr.h).
pub(crate) fn acl(value: &[u8], (user, group): (u32, u32)) -> Vec<u8> {
    const HEADER: usize = 4;
    const ENTRY: usize = 8;
    const USER: u16 = 2;
    const GROUP: u16 = 8;
    let mut bytes = value.to_vec();
    for entry in bytes.get_mut(HEADER..).unwrap_or_default().chunks_exact_mut(ENTRY) {
        let (head, number) = entry.split_at_mut(ENTRY / 2);
        let (Some(tag), Some(old)) = (head.first_chunk::<2>(), number.first_chunk::<4>()) else {
            continue;
        };
        let first = match u16::from_le_bytes(*tag) {
            USER => user,
            GROUP => group,
            // The file's owner, its group, others, and the mask have no ids.
            _ => continue,
        };
        number.copy_from_slice(&id(u32::from_le_bytes(*old), Some(first)).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_become_those_of_the_range() {
        let mut two = 0x0200_0001u32.to_le_bytes().to_vec();
        two.extend([7u8; 16]);
        let three = capabilities(&two, 100_000);
        assert_eq!(three.len(), 24);
        assert_eq!(three[..4], 0x0300_0001u32.to_le_bytes());
        assert_eq!(three[4..20], [7u8; 16]);
        assert_eq!(three[20..], 100_000u32.to_le_bytes());
        // These capabilities are for a nested user namespace.
        let mut nested = three.clone();
        nested[20..].copy_from_slice(&5u32.to_le_bytes());
        assert_eq!(capabilities(&nested, 100_000)[20..], 100_005u32.to_le_bytes());
        assert_eq!(capabilities(b"odd", 1), b"odd");
    }

    #[test]
    fn lists_get_the_ids_of_the_range() {
        let entry = |tag: u16, id: u32| {
            [&tag.to_le_bytes()[..], &6u16.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = |user: u32, group: u32, end: &[u8]| {
            let none = u32::MAX;
            let entries = [
                entry(1, none),
                entry(2, user),
                entry(4, none),
                entry(8, group),
                entry(16, none),
                entry(32, none),
            ];
            [&2u32.to_le_bytes()[..], &entries.concat(), end].concat()
        };
        let range = (100_000, 200_000);
        assert_eq!(acl(&list(1000, 5, b""), range), list(101_000, 200_005, b""));
        assert_eq!(acl(&list(70_000, 5, b"odd"), range), list(165_534, 200_005, b"odd"));
        assert_eq!(acl(b"odd", range), b"odd");
    }
}
