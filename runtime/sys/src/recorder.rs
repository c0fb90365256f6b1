//! Fixed-size trace records in memory shared by two processes. A process between clone and exec must not allocate
//! memory, so it reports its steps through such records.

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::shared::Shared;

/// The record of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The start time, in nanoseconds of CLOCK_MONOTONIC_RAW.
    pub start: u64,
    /// The end time, in the same unit as `start`; 0 while the step runs, and also after a step that executed a program.
    pub end: u64,
    /// The step's index in its actor's list.
    pub step: u16,
    /// The errno with which the step failed, or 0.
    pub errno: u16,
}

impl Record {
    /// Packs the record into three words. The last word is never 0, so that the record differs from an unused slot.
    fn pack(self) -> [u64; 3] {
        [self.start, self.end, 1 << 32 | u64::from(self.errno) << 16 | u64::from(self.step)]
    }

    fn unpack([start, end, rest]: [u64; 3]) -> Option<Self> {
        let used = rest >> 32 == 1;
        let [a, b, c, d, ..] = rest.to_le_bytes();
        let (step, errno) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        used.then_some(Self { start, end, step, errno })
    }
}

/// Returns the time of CLOCK_MONOTONIC_RAW in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The records of one process (an actor, such as init), which another process reads.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The records, and one more slot with the number of lost records, the actor's start time, and the index of the
    /// next record. Everything that the processes share is in these slots, which consist of atomics.
    records: Shared<3>,
    capacity: usize,
    /// The writer's clock minus the reader's, in nanoseconds.
    ahead: i64,
    /// The step at whose end the writer's clock jumps, and the length of the jump in nanoseconds.
    moves: Option<(u16, i64)>,
}

/// A step in progress.
#[derive(Debug)]
pub struct Begun {
    index: usize,
    record: Record,
}

impl Recorder {
    /// Returns a recorder for `capacity` steps of a child that shares this process's memory.
    #[cfg(feature = "alloc")]
    pub fn new(capacity: usize) -> Self {
        Self { records: Shared::leaked(capacity + 1), capacity, ahead: 0, moves: None }
    }

    /// Returns a recorder for `capacity` steps of a child with its own copy of memory.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn shared(capacity: usize) -> Result<Self, Errno> {
        let records = Shared::zeroed(capacity + 1)?;
        Ok(Self { records, capacity, ahead: 0, moves: None })
    }

    /// Sets the number of nanoseconds by which the writer's clock is ahead of the reader's. The clocks differ if the
    /// writer is in a time namespace with an offset.
    pub fn set_ahead(&mut self, nanoseconds: i64) {
        self.ahead = nanoseconds;
    }

    /// Sets the step that moves the writer into a time namespace, and the number of nanoseconds by which this step
    /// advances the writer's clock.
    pub fn set_move(&mut self, step: usize, nanoseconds: i64) {
        self.moves = u16::try_from(step).ok().map(|step| (step, nanoseconds));
    }

    /// Returns the record with its times converted to the writer's clock as it was before the jump.
    fn unmoved(&self, record: Record) -> Record {
        let back = |time: u64, by| if time == 0 { 0 } else { time.wrapping_sub_signed(by) };
        match self.moves {
            Some((step, by)) if record.step > step => {
                Record { start: back(record.start, by), end: back(record.end, by), ..record }
            }
            Some((step, by)) if record.step == step => {
                Record { end: back(record.end, by), ..record }
            }
            _ => record,
        }
    }

    fn here(&self, time: u64) -> u64 {
        match time {
            0 => 0,
            time => time.wrapping_sub_signed(self.ahead),
        }
    }

    /// Records the actor's start time.
    pub fn born(&self) {
        let [lost, _, next] = self.own();
        self.records.set(self.capacity, [lost, now(), next]);
    }

    /// Returns the actor's start time, if recorded.
    pub fn birth(&self) -> Option<u64> {
        let [_, born, _] = self.own();
        (born > 0).then(|| self.here(born))
    }

    /// Returns the bookkeeping slot: see `records`.
    fn own(&self) -> [u64; 3] {
        self.records.get(self.capacity).unwrap_or_default()
    }

    /// Records the beginning of a step. The record is visible at once, so a trace shows the step in which an actor was
    /// killed.
    pub fn begin(&self, step: usize) -> Begun {
        let [lost, born, next] = self.own();
        let index = usize::try_from(next).unwrap_or(usize::MAX);
        let start = now();
        let step = u16::try_from(step).unwrap_or(u16::MAX);
        let record = Record { start, end: 0, step, errno: 0 };
        if index < self.capacity {
            self.records.set(index, record.pack());
        }
        let lost = lost + u64::from(index >= self.capacity);
        self.records.set(self.capacity, [lost, born, next + 1]);
        Begun { index, record }
    }

    /// Records the end of a step, unless its record was lost.
    pub fn end(&self, begun: Begun, result: Result<(), Errno>) {
        let errno =
            result.err().map_or(0, |errno| u16::try_from(errno.raw_os_error()).unwrap_or(u16::MAX));
        if begun.index < self.capacity {
            self.records.set(begun.index, Record { end: now(), errno, ..begun.record }.pack());
        }
    }

    /// Returns the number of steps that were not recorded because all slots were used.
    pub fn lost(&self) -> u64 {
        self.own()[0]
    }

    /// Returns the records in order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let read = |index| self.records.get(index).and_then(Record::unpack);
        (0..self.capacity).map_while(read).map(|record| self.unmoved(record)).map(|record| Record {
            start: self.here(record.start),
            end: self.here(record.end),
            ..record
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_beyond_the_capacity_are_counted() {
        let recorder = Recorder::new(10);
        let reader = recorder.clone();
        recorder.born();
        for step in 0..13 {
            recorder.end(recorder.begin(step), Ok(()));
        }
        assert_eq!(reader.lost(), 3);
        assert_eq!(reader.records().count(), 10);
        assert!(reader.birth().unwrap() <= reader.records().next().unwrap().start);
    }

    #[test]
    fn ten_thousand_steps_fit_where_there_is_room_for_them() {
        let recorder = Recorder::shared(10_000).unwrap();
        for step in 0..10_000 {
            recorder.end(recorder.begin(step), Ok(()));
        }
        assert_eq!((recorder.lost(), recorder.birth()), (0, None));
        assert!(recorder.records().enumerate().all(|(at, record)| at == usize::from(record.step)));
        assert_eq!(recorder.records().count(), 10_000);
    }

    #[test]
    fn clocks_of_another_time_namespace_are_set_right() {
        let mut recorder = Recorder::new(1);
        recorder.born();
        let begun = recorder.begin(0);
        let start = begun.record.start;
        let hour = 3_600_000_000_000;
        recorder.set_ahead(-hour);
        let record = recorder.records().next().unwrap();
        assert_eq!((record.start, record.end), (start + hour.cast_unsigned(), 0));
        assert!(recorder.birth().unwrap() > record.start - 1_000_000_000);
    }

    #[test]
    fn a_writer_that_moves_is_read_by_its_first_clock() {
        let mut recorder = Recorder::new(3);
        for step in 0..3 {
            recorder.end(recorder.begin(step), Ok(()));
        }
        let times = |recorder: &Recorder| {
            recorder.records().map(|record| (record.start, record.end)).collect::<Vec<_>>()
        };
        let before = times(&recorder);
        recorder.set_move(1, 5);
        let [first, second, third] = before[..] else { panic!("{before:?}") };
        let moved = [first, (second.0, second.1 - 5), (third.0 - 5, third.1 - 5)];
        assert_eq!(times(&recorder), moved);
    }

    #[test]
    fn a_step_is_seen_while_it_goes_on() {
        let recorder = Recorder::new(2);
        let begun = recorder.begin(7);
        let record = recorder.records().next().unwrap();
        assert_eq!((record.step, record.end), (7, 0));
        recorder.end(begun, Err(Errno::NOENT));
        let record = recorder.records().next().unwrap();
        assert!(record.end >= record.start);
        assert_eq!(i32::from(record.errno), Errno::NOENT.raw_os_error());
    }
}
