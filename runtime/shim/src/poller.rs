//! What the loop waits for: descriptors, each with the source that it is of (epoll(7)).

use alloc::vec::Vec;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use sys::Context;

pub use rustix::event::epoll::EventFlags as Interest;

/// Whose descriptor is ready. Numbers are keys of the loop's tables, which are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The socket that containerd connects to.
    Listener,
    /// A connection of containerd's.
    Connection(u32),
    /// SIGCHLD and SIGTERM, by signalfd(2).
    Signals,
    /// A stream of a process: which one is the business of `io`.
    Stream(u32, u8),
    /// The connection by which events are published, or what tells that there can be one: which one is the business
    /// of `event`.
    Publisher(u8),
    /// A container's OOM watch: which descriptor is the business of `oom`.
    Oom(u32, u8),
}

impl Source {
    /// As the 64 bits that epoll(7) keeps for a descriptor.
    fn to_bits(self) -> u64 {
        let (kind, key, part) = match self {
            Self::Listener => (0, 0, 0),
            Self::Connection(key) => (1, key, 0),
            Self::Signals => (2, 0, 0),
            Self::Stream(key, part) => (3, key, part),
            Self::Publisher(part) => (4, 0, part),
            Self::Oom(key, part) => (5, key, part),
        };
        u64::from(key) << 32 | u64::from(part) << 8 | kind
    }

    /// The reverse of [`Source::to_bits`]; `None` for what that never returns.
    fn from_bits(bits: u64) -> Option<Self> {
        let (key, part) = ((bits >> 32) as u32, (bits >> 8) as u8);
        Some(match bits as u8 {
            0 => Self::Listener,
            1 => Self::Connection(key),
            2 => Self::Signals,
            3 => Self::Stream(key, part),
            4 => Self::Publisher(part),
            5 => Self::Oom(key, part),
            _ => return None,
        })
    }
}

/// A set of descriptors to wait for, level-triggered.
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// How many events one wait returns at most.
const BATCH: usize = 64;

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// Those of epoll_create1(2).
    pub fn new() -> Result<Self, sys::Error> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create1", "")?))
    }

    /// Adds a descriptor. Errors and hang-ups are reported whatever `interest` is.
    ///
    /// # Errors
    /// EEXIST if it is there already, EPERM for a file that epoll(7) does not take; others of epoll_ctl(2).
    pub fn add(&self, fd: impl AsFd, source: Source, interest: Interest) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(source.to_bits()), interest)
    }

    /// Changes what a descriptor is waited for.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn modify(&self, fd: impl AsFd, source: Source, interest: Interest) -> Result<(), Errno> {
        epoll::modify(&self.0, fd, epoll::EventData::new_u64(source.to_bits()), interest)
    }

    /// Removes a descriptor. One that nobody else has a copy of is removed by its close.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.0, fd)
    }

    /// Waits until something is ready, at most for `limit`; returns what is.
    ///
    /// # Errors
    /// Those of epoll_wait(2) but EINTR.
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
            Source::Oom(3, 1),
        ] {
            assert_eq!(Source::from_bits(source.to_bits()), Some(source));
        }
        assert_eq!(Source::from_bits(77), None);
    }

    #[test]
    fn a_pipe_becomes_readable() {
        let poller = Poller::new().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        poller.add(&reader, Source::Stream(1, 2), Interest::IN).unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert!(poller.wait(Some(&now)).unwrap().is_empty());
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(poller.wait(None).unwrap(), [(Source::Stream(1, 2), Interest::IN)]);
        poller.remove(&reader).unwrap();
        assert!(poller.wait(Some(&now)).unwrap().is_empty());
    }
}
