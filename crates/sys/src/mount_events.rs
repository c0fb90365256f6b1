//! The kernel's own account of a mount namespace: what is attached there and detached, by fanotify(7)
//! with FAN_REPORT_MNT, Linux 6.15.

use alloc_crate::vec::Vec;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{Errno, read};

use crate::raw::{call, nr};

const FAN_CLOEXEC: usize = 0x1;
const FAN_NONBLOCK: usize = 0x2;
const FAN_UNLIMITED_QUEUE: usize = 0x10;
const FAN_REPORT_MNT: usize = 0x4000;
const FAN_MARK_ADD: usize = 0x1;
const FAN_MARK_MNTNS: usize = 0x110;
const FAN_Q_OVERFLOW: u64 = 0x4000;
const FAN_MNT_ATTACH: u64 = 0x0100_0000;
const FAN_MNT_DETACH: u64 = 0x0200_0000;
const FAN_EVENT_INFO_TYPE_MNT: u8 = 7;

/// Bytes of `struct fanotify_event_metadata`.
const METADATA: usize = 24;
/// Bytes of an event with its `struct fanotify_event_info_mnt`.
const EVENT: usize = METADATA + 16;

/// Something that happened to a mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountEvent {
    /// The mount, by the id that statmount(2) takes.
    pub mount: u64,
    /// It was attached; with `detached`, both since the last look.
    pub attached: bool,
    /// It was detached.
    pub detached: bool,
}

/// A watch over a mount namespace.
#[derive(Debug)]
pub struct MountEvents(OwnedFd);

impl MountEvents {
    /// Watches `namespace`, an open /proc/PID/ns/mnt.
    ///
    /// # Errors
    /// EINVAL before Linux 6.15; EPERM without CAP_SYS_ADMIN in the namespace's user namespace.
    pub fn of(namespace: BorrowedFd<'_>) -> Result<Self, Errno> {
        let flags = FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE | FAN_REPORT_MNT;
        // SAFETY: no pointers; a descriptor that nobody else has comes back.
        let group = unsafe {
            let fd = call(nr::FANOTIFY_INIT, [flags, 0])?;
            OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::RANGE)?)
        };
        let mask = FAN_MNT_ATTACH | FAN_MNT_DETACH;
        let of = |fd: BorrowedFd<'_>| fd.as_raw_fd().cast_unsigned() as usize;
        let how = FAN_MARK_ADD | FAN_MARK_MNTNS;
        // SAFETY: no path, so no pointers.
        unsafe {
            let group = of(group.as_fd());
            call(nr::FANOTIFY_MARK, [group, how, mask as usize, of(namespace), 0])?;
        }
        Ok(Self(group))
    }

    /// What has happened since the last look. A mount that was both attached and detached meanwhile is
    /// one event with both.
    ///
    /// # Errors
    /// EOVERFLOW if the kernel had to leave some out; EPROTO for what is no event of mounts.
    pub fn look(&self) -> Result<Vec<MountEvent>, Errno> {
        let mut events = Vec::new();
        let mut buffer = [0u8; 100 * EVENT];
        loop {
            let length = match read(&self.0, &mut buffer) {
                Err(Errno::AGAIN) | Ok(0) => return Ok(events),
                Err(Errno::INTR) => continue,
                result => result?,
            };
            let mut rest = buffer.get(..length).ok_or(Errno::PROTO)?;
            while !rest.is_empty() {
                let (event, after) = first(rest).ok_or(Errno::PROTO)?;
                events.push(event?);
                rest = after;
            }
        }
    }
}

/// The first event, and what follows it; none if that can't be understood.
fn first(bytes: &[u8]) -> Option<(Result<MountEvent, Errno>, &[u8])> {
    let number = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let (event, after) = bytes.split_at_checked(length).filter(|_| length >= METADATA)?;
    let mask = number(8)?;
    if mask & FAN_Q_OVERFLOW != 0 {
        return Some((Err(Errno::OVERFLOW), after));
    }
    if event.get(METADATA) != Some(&FAN_EVENT_INFO_TYPE_MNT) {
        return None;
    }
    let attached = mask & FAN_MNT_ATTACH != 0;
    let detached = mask & FAN_MNT_DETACH != 0;
    Some((Ok(MountEvent { mount: number(METADATA + 8)?, attached, detached }), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(mask: u64, mount: u64) -> Vec<u8> {
        let mut bytes = (EVENT as u32).to_ne_bytes().to_vec();
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(mask.to_ne_bytes());
        bytes.extend([0xff; 8]);
        bytes.extend([FAN_EVENT_INFO_TYPE_MNT, 0, 16, 0, 0, 0, 0, 0]);
        bytes.extend(mount.to_ne_bytes());
        bytes
    }

    #[test]
    fn events_are_taken_apart() {
        let both = event(FAN_MNT_ATTACH | FAN_MNT_DETACH, 7);
        let bytes = [both, event(FAN_MNT_DETACH, 9)].concat();
        let (one, rest) = first(&bytes).unwrap();
        assert_eq!(one, Ok(MountEvent { mount: 7, attached: true, detached: true }));
        let (other, rest) = first(rest).unwrap();
        assert_eq!(other, Ok(MountEvent { mount: 9, attached: false, detached: true }));
        assert!(rest.is_empty() && first(rest).is_none());
    }

    #[test]
    fn what_is_no_event_is_not_believed() {
        let whole = event(FAN_MNT_ATTACH, 7);
        assert_eq!(first(&event(FAN_Q_OVERFLOW, 0)).unwrap().0, Err(Errno::OVERFLOW));
        for length in 0..whole.len() {
            assert!(first(&whole[..length]).is_none(), "{length}");
        }
        let mut other = whole;
        other[METADATA] = 1;
        assert!(first(&other).is_none());
    }
}
