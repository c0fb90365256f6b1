//! The descriptors that the loop waits for with epoll(7). Each has a source, which identifies it.

use alloc::vec::Vec;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use sys::Context;

pub use rustix::event::epoll::EventFlags as Interest;

/// The source of a ready descriptor. The 32-bit numbers are keys of the loop's tables and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The socket to which containerd connects.
    Listener,
    /// A connection from containerd.
    Connection(u32),
    /// All signals, by signalfd(2). The loop acts on SIGCHLD and SIGTERM.
    Signals,
    /// A stream of a process, and the part of it; the module `io` defines the parts.
    Stream(u32, u8),
    /// The connection for publishing events, or the inotify watch for its socket; the module `event` defines the parts.
    Publisher(u8),
    /// A container's OOM watch.
    Oom(u32),
    /// The start of a created container, by the key of its init.
    Start(u32),
}

impl Source {
    /// Encodes the source as the 64 bits that epoll(7) stores for a descriptor.
    fn to_bits(self) -> u64 {
        let (kind, key, part) = match self {
            Self::Listener => (0, 0, 0),
            Self::Connection(key) => (1, key, 0),
            Self::Signals => (2, 0, 0),
            Self::Stream(key, part) => (3, key, part),
            Self::Publisher(part) => (4, 0, part),
            Self::Oom(key) => (5, key, 0),
            Self::Start(key) => (6, key, 0),
        };
        u64::from(key) << 32 | u64::from(part) << 8 | kind
    }

    /// Reverses [`Source::to_bits`]; returns `None` for invalid bits.
    fn from_bits(bits: u64) -> Option<Self> {
        let [low, key] = sys::raw::halves(bits);
        let [kind, part, ..] = low.to_le_bytes();
        Some(match kind {
            0 => Self::Listener,
            1 => Self::Connection(key),
            2 => Self::Signals,
            3 => Self::Stream(key, part),
            4 => Self::Publisher(part),
            5 => Self::Oom(key),
            6 => Self::Start(key),
            _ => return None,
        })
    }
}

/// A set of descriptors to poll, level-triggered.
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// The maximum number of events returned by one wait.
const BATCH: usize = 64;

impl Poller {
    /// Returns an empty set.
    ///
    /// # Errors
    /// Those of epoll_create1(2).
    pub fn new() -> Result<Self, sys::Error> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create1", "")?))
    }

    /// Adds a descriptor. Errors and hang-ups are reported whatever `interest` is.
    ///
    /// # Errors
    /// EEXIST if the descriptor is already in the set, EPERM for a file that epoll(7) does not support; others of
    /// epoll_ctl(2).
    pub fn add(&self, fd: impl AsFd, source: Source, interest: Interest) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(source.to_bits()), interest)
    }

    /// Changes the events polled on a descriptor.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn modify(&self, fd: impl AsFd, source: Source, interest: Interest) -> Result<(), Errno> {
        epoll::modify(&self.0, fd, epoll::EventData::new_u64(source.to_bits()), interest)
    }

    /// Removes a descriptor. Closing a descriptor also removes it, unless a copy of the descriptor is still open.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.0, fd)
    }

    /// Waits until a descriptor is ready, for `limit` at most; returns the ready sources.
    ///
    /// # Errors
    /// Those of epoll_wait(2) except EINTR.
    pub fn wait(&self, limit: Option<&Timespec>) -> Result<Vec<(Source, Interest)>, sys::Error> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(BATCH);
        match epoll::wait(&self.0, spare_capacity(&mut events), limit) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(sys::Error::new("epoll_wait", "", errno)),
        }
        let known = events.iter().filter_map(|event| {
            let (flags, data) = (event.flags, event.data.u64());
            Some((Source::from_bits(data)?, flags))
        });
        Ok(known.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_round_trip() {
        for source in [
            Source::Listener,
            Source::Connection(7),
            Source::Signals,
            Source::Stream(9, 255),
            Source::Publisher(1),
            Source::Oom(3),
            Source::Start(4),
        ] {
            assert_eq!(Source::from_bits(source.to_bits()), Some(source));
        }
        assert_eq!(Source::from_bits(77), None);
    }
}
