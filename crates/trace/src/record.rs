//! Fixed-size records in memory that two processes share: what a process between clone and exec did,
//! which must not allocate and can't tell anybody.

use core::cell::Cell;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sys::shared::Shared;

/// Whether an actor worked or waited for another one.
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
    /// Nanoseconds of CLOCK_MONOTONIC_RAW.
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

/// Where an actor writes its records, and another one reads them.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// One slot more than there are records: how many found no room.
    records: Shared<3>,
    capacity: usize,
    next: Cell<usize>,
}

impl Recorder {
    /// Maps memory for so many steps; before the clone.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(capacity: usize) -> Result<Self, Errno> {
        let records = Shared::zeroed(capacity + 1)?;
        Ok(Self { records, capacity, next: Cell::new(0) })
    }

    /// Stores a step that began at `start` and ends now.
    pub fn record(&self, step: usize, kind: Kind, start: u64, result: Result<(), Errno>) {
        self.store(step, kind, (start, now()), result.err());
    }

    /// Stores a step of which nobody will see the end, as it replaces the program.
    pub fn begin(&self, step: usize, start: u64) {
        self.store(step, Kind::Work, (start, 0), None);
    }

    fn store(&self, step: usize, kind: Kind, (start, end): (u64, u64), errno: Option<Errno>) {
        let index = self.next.get();
        self.next.set(index + 1);
        let (Some(_), Ok(step)) = (self.capacity.checked_sub(index + 1), u16::try_from(step))
        else {
            self.records.set(self.capacity, [self.lost() + 1, 0, 0]);
            return;
        };
        let errno = errno.map_or(0, |errno| errno.raw_os_error() as u16);
        self.records.set(index, Record { start, end, step, errno, kind }.pack());
    }

    /// Takes the last record back: what it began has failed, and is recorded anew.
    pub fn take_back(&self) {
        self.next.set(self.next.get().saturating_sub(1));
    }

    /// How many steps found no room.
    pub fn lost(&self) -> u64 {
        self.records.get(self.capacity).map_or(0, |[lost, ..]| lost)
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (0..self.capacity).filter_map(|index| self.records.get(index).and_then(Record::unpack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_beyond_the_capacity_are_counted() {
        let recorder = Recorder::new(10).unwrap();
        let reader = recorder.clone();
        for step in 0..13 {
            recorder.record(step, Kind::Work, now(), Ok(()));
        }
        assert_eq!(reader.lost(), 3);
        assert_eq!(reader.records().count(), 10);
    }

    #[test]
    fn ten_thousand_steps_fit_where_there_is_room_for_them() {
        let recorder = Recorder::new(10_000).unwrap();
        for step in 0..10_000 {
            recorder.record(step, Kind::Work, step as u64, Ok(()));
        }
        assert_eq!(recorder.lost(), 0);
        assert!(recorder.records().enumerate().all(|(at, record)| at == usize::from(record.step)));
        assert_eq!(recorder.records().count(), 10_000);
    }

    #[test]
    fn a_record_keeps_what_it_is_given() {
        let recorder = Recorder::new(2).unwrap();
        recorder.record(7, Kind::Wait, 5, Err(Errno::NOENT));
        let record = recorder.records().next().unwrap();
        assert_eq!((record.step, record.kind, record.start), (7, Kind::Wait, 5));
        assert_eq!(i32::from(record.errno), Errno::NOENT.raw_os_error());
    }

    #[test]
    fn a_step_without_an_end_is_seen_or_replaced() {
        let recorder = Recorder::new(2).unwrap();
        recorder.begin(1, 5);
        assert_eq!(recorder.records().next().unwrap().end, 0);
        recorder.take_back();
        recorder.record(1, Kind::Work, 5, Err(Errno::NOENT));
        assert_eq!(recorder.records().count(), 1);
        assert_eq!(recorder.records().next().unwrap().errno, 2);
    }
}
