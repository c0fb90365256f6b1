//! Fixed-size records in memory that both actors share.

use core::cell::Cell;
use core::fmt;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sys::shared::Shared;

/// What a step is for: the categories of seed 004, Table I, and shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Capabilities, user, seccomp, masks, keyring.
    Security,
    /// Everything that attaches or changes a mount.
    Mounts,
    /// Namespaces, hostname, sysctl, console, network.
    Platform,
    /// cgroup directories, limits, membership.
    Cgroups,
    /// Process creation, exec, hooks.
    Bootstrap,
    /// Waiting for the other actor.
    Sync,
    /// Reading, compiling, writing records.
    Configuration,
    /// From the exit of the container to nothing left.
    Shutdown,
}

impl Phase {
    /// The name as printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Mounts => "mounts",
            Self::Platform => "platform",
            Self::Cgroups => "cgroups",
            Self::Bootstrap => "bootstrap",
            Self::Sync => "sync",
            Self::Configuration => "configuration",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which process ran a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The dayfly command.
    Host,
    /// The process that becomes the container's.
    Init,
}

/// Whether an actor worked or waited for the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Own work.
    Work,
    /// Waiting.
    Wait,
}

/// One step as it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds of CLOCK_MONOTONIC_RAW, which no time namespace shifts.
    pub start: u64,
    /// As `start`.
    pub end: u64,
    /// The step's place in its actor's list.
    pub step: u16,
    /// The errno it failed with, or 0.
    pub errno: u16,
    /// Work or wait.
    pub kind: Kind,
}

impl Record {
    /// Three words; the last is not 0, which an unused slot has.
    fn pack(self) -> [u64; 3] {
        let kind = match self.kind {
            Kind::Work => 1,
            Kind::Wait => 2,
        };
        [self.start, self.end, kind << 32 | u64::from(self.errno) << 16 | u64::from(self.step)]
    }

    fn unpack([start, end, rest]: [u64; 3]) -> Option<Self> {
        let kind = match rest >> 32 {
            1 => Kind::Work,
            2 => Kind::Wait,
            _ => return None,
        };
        Some(Self { start, end, step: rest as u16, errno: (rest >> 16) as u16, kind })
    }
}

/// Nanoseconds of CLOCK_MONOTONIC_RAW.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Where both actors write their records: half of a shared mapping each.
#[derive(Debug)]
pub struct Recorder {
    records: Shared<3>,
    next: Cell<usize>,
    end: Cell<usize>,
    lost: Cell<usize>,
}

impl Recorder {
    /// Steps each actor can record; what comes after is counted as lost.
    pub const CAPACITY: usize = 4096;

    /// Maps the memory; before the clone.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> Result<Self, Errno> {
        let records = Shared::zeroed(2 * Self::CAPACITY)?;
        Ok(Self { records, next: Cell::new(0), end: Cell::new(Self::CAPACITY), lost: Cell::new(0) })
    }

    /// The recorder of init, whose records go into the other half.
    pub fn of_init(&self) -> Self {
        Self {
            records: self.records,
            next: Cell::new(Self::CAPACITY),
            end: Cell::new(2 * Self::CAPACITY),
            lost: Cell::new(0),
        }
    }

    /// Stores a step that began at `start` and ends now.
    pub fn record(&self, step: usize, kind: Kind, start: u64, result: Result<(), Errno>) {
        let index = self.next.get();
        if index >= self.end.get() {
            self.lost.set(self.lost.get() + 1);
            return;
        }
        let errno = result.err().map_or(0, |errno| errno.raw_os_error() as u16);
        let record = Record { start, end: now(), step: step as u16, errno, kind };
        self.records.set(index, record.pack());
        self.next.set(index + 1);
    }

    /// How many steps of the calling actor found no room.
    pub fn lost(&self) -> usize {
        self.lost.get()
    }

    /// The records of one actor, in order.
    pub fn records(&self, actor: Actor) -> impl Iterator<Item = Record> + '_ {
        let first = if actor == Actor::Init { Self::CAPACITY } else { 0 };
        (first..first + Self::CAPACITY)
            .map_while(|index| self.records.get(index).and_then(Record::unpack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_beyond_the_capacity_are_counted_not_written() {
        let recorder = Recorder::new().unwrap();
        for step in 0..Recorder::CAPACITY + 3 {
            recorder.record(step, Kind::Work, now(), Ok(()));
        }
        assert_eq!(recorder.lost(), 3);
        assert_eq!(recorder.records(Actor::Host).count(), Recorder::CAPACITY);
        assert_eq!(recorder.records(Actor::Init).count(), 0);
        recorder.of_init().record(7, Kind::Wait, 5, Err(Errno::NOENT));
        let record = recorder.records(Actor::Init).next().unwrap();
        assert_eq!((record.step, record.kind, record.start), (7, Kind::Wait, 5));
        assert_eq!(i32::from(record.errno), Errno::NOENT.raw_os_error());
    }
}
