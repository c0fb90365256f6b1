//! Removes the host's peer groups from the images of a checkpoint.
//!
//! With a shared root, a shared bind mount of the container is a peer of the host's mount. criu takes such mounts for peers
//! of each other, and cannot restore peers without a common root. In the images, they are private; `sharing.rs` makes
//! them peers of the mounts of the host of the restore.

use alloc::vec::Vec;

use rustix::fs::{Mode, OFlags, openat};
use sys::Context;

use super::images::Directory;
use super::mountinfo;
use crate::Error;

/// The beginning of the name of an image with the mounts of a mount namespace.
const MOUNTS: &str = "mountpoints-";
/// The largest such image, in bytes.
const LONGEST: usize = 1 << 26;
/// The length of the magic numbers of an image.
const HEADER: usize = 8;
/// The numbers of the fields `shared_id` and `master_id` of `mnt_entry`, criu's description of a mount.
const SHARED: u64 = 10;
const MASTER: u64 = 11;

/// Removes the peer groups of this mount namespace from the images. The lengths of the images stay the same.
///
/// # Errors
/// If the mount table or an image cannot be read, or an image cannot be written.
pub(super) fn remove(images: &Directory) -> Result<(), Error> {
    let table = mountinfo::read("/proc/self/mountinfo")?;
    let groups: Vec<u64> = table.iter().map(|line| line.sharing.group).collect();
    let is_of_host = |group| group != 0 && groups.contains(&group);
    for name in images.names()?.iter().filter(|name| name.starts_with(MOUNTS)) {
        let mut image = images.read(name, LONGEST)?;
        if remove_from(&mut image, &is_of_host) {
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&images.fd, name.as_str(), flags, Mode::empty());
            let file = file.context("open", name)?;
            sys::stdio::write_all(file, &image).context("write", name)?;
        }
    }
    Ok(())
}

/// Does this for one image, a sequence of messages with their lengths. Returns whether the image has changed.
fn remove_from(image: &mut [u8], is_of_host: &impl Fn(u64) -> bool) -> bool {
    let mut has_changed = false;
    let mut rest = image.get_mut(HEADER..).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk_mut::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((message, after)) = after.split_at_mut_checked(length) else { break };
        has_changed |= remove_from_mount(message, is_of_host).unwrap_or(false);
        rest = after;
    }
    has_changed
}

/// Does this for one mount. Returns `None` if the message cannot be read to its end.
fn remove_from_mount(message: &mut [u8], is_of_host: &impl Fn(u64) -> bool) -> Option<bool> {
    let mut is_peer = false;
    let mut at = 0;
    while at < message.len() {
        let (tag, begin) = varint(message, at)?;
        let (value, end) = match tag & 7 {
            0 | 2 => varint(message, begin)?,
            1 => (0, begin + 8),
            5 => (0, begin + 4),
            _ => return None,
        };
        at = match tag & 7 {
            2 => end.checked_add(usize::try_from(value).ok()?)?,
            _ => end,
        };
        is_peer |= tag == SHARED << 3 && is_of_host(value);
        if is_peer && (tag == SHARED << 3 || tag == MASTER << 3) {
            // A number of the same length that is 0.
            let (last, others) = message.get_mut(begin..end)?.split_last_mut()?;
            others.fill(0x80);
            *last = 0;
        }
    }
    Some(is_peer)
}

/// Reads a number of 7 bits a byte, the lowest first; returns it and the place after it.
fn varint(message: &[u8], at: usize) -> Option<(u64, usize)> {
    let bytes = message.get(at..)?;
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let bits = bytes.iter().take(length).rev();
    Some((bits.fold(0, |value, byte| (value << 7) | u64::from(byte & 0x7f)), at + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_host_alone() {
        // mnt_id 300, root "/a", shared_id 1092, master_id 2, sb_flags 5
        let of_host = [16, 0xac, 2, 50, 2, 47, 97, 80, 0xc4, 8, 88, 2, 0x88, 1, 5];
        let own = [16, 1, 80, 0x97, 8, 88, 0xc4, 8];
        let image = |messages: [&[u8]; 3]| {
            let mut image = alloc::vec![7; HEADER];
            for message in messages {
                image.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
                image.extend(message);
            }
            image
        };
        let mut found = image([&own, &of_host, &own]);
        assert!(remove_from(&mut found, &|group| group == 1092));
        let private = [16, 0xac, 2, 50, 2, 47, 97, 80, 0x80, 0, 88, 0, 0x88, 1, 5];
        assert_eq!(found, image([&own, &private, &own]));
        assert!(!remove_from(&mut found, &|group| group == 1092));
        // What is damaged stays.
        for length in 0..found.len() {
            let mut part = image([&own, &of_host, &own])[..length].to_vec();
            remove_from(&mut part, &|group| group == 1092);
        }
    }
}
