//! fanotify(7) events about each mount attached or detached in a mount namespace (FAN_REPORT_MNT, Linux 6.15). With
//! these events, the mounts that other programs create can be counted without their cooperation.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, read};

use crate::raw::{call, nr};

const FAN_CLOEXEC: usize = 0x1;
const FAN_NONBLOCK: usize = 0x2;
const FAN_UNLIMITED_QUEUE: usize = 0x10;
const FAN_REPORT_MNT: usize = 0x4000;
const FAN_MARK_ADD: usize = 0x1;
const FAN_MARK_MNTNS: usize = 0x110;
const FAN_MNT_ATTACH: u64 = 0x0100_0000;
const FAN_MNT_DETACH: u64 = 0x0200_0000;
const FAN_Q_OVERFLOW: u64 = 0x4000;

/// A watch on the mounts of a namespace.
#[derive(Debug)]
pub struct MountWatch(OwnedFd);

/// Counts of mounts attached and detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountEvents {
    /// Mounts attached.
    pub attached: u32,
    /// Mounts detached.
    pub detached: u32,
}

impl MountWatch {
    /// Starts watching a mount namespace, given as an nsfs descriptor.
    ///
    /// # Errors
    /// EINVAL before Linux 6.15; EPERM without CAP_SYS_ADMIN.
    pub fn new(namespace: BorrowedFd<'_>) -> Result<Self, Errno> {
        let flags = FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE | FAN_REPORT_MNT;
        // SAFETY: the arguments are numbers; on success the kernel returns a new descriptor.
        let group = unsafe {
            let fd = call(nr::FANOTIFY_INIT, [flags, 0])?;
            crate::raw::new_fd(fd)
        };
        let mask = FAN_MNT_ATTACH | FAN_MNT_DETACH;
        let mark = FAN_MARK_ADD | FAN_MARK_MNTNS;
        let (group_fd, target) = (group.as_raw_fd(), namespace.as_raw_fd());
        // SAFETY: the path may be null, because the descriptor alone identifies the namespace.
        unsafe { call(nr::FANOTIFY_MARK, crate::raw::args![group_fd, mark, mask, target, 0]) }?;
        Ok(Self(group))
    }

    /// Returns the numbers of mounts attached and detached since the last call.
    ///
    /// # Errors
    /// EOVERFLOW if the kernel dropped events.
    pub fn events(&self) -> Result<MountEvents, Errno> {
        let mut events = MountEvents::default();
        let mut buffer = [0u8; 8192];
        loop {
            let length = match read(&self.0, &mut buffer) {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(events),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            // struct fanotify_event_metadata: length, version and sizes, mask.
            while let Some((size, mask)) = event(rest) {
                if mask & FAN_Q_OVERFLOW != 0 {
                    return Err(Errno::OVERFLOW);
                }
                events.attached += u32::from(mask & FAN_MNT_ATTACH != 0);
                events.detached += u32::from(mask & FAN_MNT_DETACH != 0);
                rest = rest.get(size..).unwrap_or_default();
            }
        }
    }
}

/// Returns the length and the mask of the first event in `bytes`.
fn event(bytes: &[u8]) -> Option<(usize, u64)> {
    let size = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let mask = u64::from_ne_bytes(*bytes.get(8..16)?.first_chunk()?);
    (size >= 16).then_some((size, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        let mut bytes = [0u8; 24];
        bytes[..4].copy_from_slice(&24u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&FAN_MNT_DETACH.to_ne_bytes());
        assert_eq!(event(&bytes), Some((24, FAN_MNT_DETACH)));
        assert_eq!(event(&[0; 24]), None);
        assert_eq!(event(&[]), None);
    }
}
