//! One direction of one stream: copies data from a source to a sink as long as the sink has space.
//!
//! At any time, the poller contains either the source or the sink, namely the end that the carrier waits for. If the
//! poller contained both, epoll(7) could report a hang-up of the opposite end again and again, although the carrier
//! could do nothing about the hang-up: epoll(7) reports hang-ups even if they are not requested.
//!
//! An end is taken out of the poller by EPOLL_CTL_DEL: while a worker has a copy of the descriptor, close(2) alone does
//! not.

use alloc::rc::Rc;
use alloc::vec::Vec;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionread, read, write};
use rustix::pipe::{SpliceFlags, splice};

use crate::poller::{Interest, Poller, Source};

/// The maximum number of bytes read at a time, if data cannot be spliced from the source to the sink. So at most this
/// many bytes are buffered.
const CHUNK: usize = 4096;
/// The maximum number of bytes spliced at a time. A pipe contains no more, unless root has enlarged it.
const SPLICED: usize = 1 << 20;
/// The number of times that a carrier moves data before other carriers are served.
pub(super) const TURNS: usize = 4;
/// The maximum number of bytes read from a terminal whose program has exited: more than a terminal can buffer.
const LAST: usize = 256 << 10;

/// The sink of a stream.
#[derive(Debug)]
pub(super) enum Sink {
    /// A pipe, a FIFO or a terminal, opened non-blocking: accepts data only while it has space.
    Flow(Rc<OwnedFd>),
    /// A file, which accepts data at any time. If writing fails (ENOSPC, EIO), the data is lost, so that the program
    /// can continue.
    File(OwnedFd),
    /// No sink: data is discarded.
    Nothing,
}

/// The kinds of the source and the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// A program's output, from its pipe. It is read even if it is discarded.
    Output,
    /// A program's output, from its terminal. It is read even if it is discarded.
    TerminalOutput,
    /// A program's input, to its pipe.
    Input,
    /// A program's input, to its terminal.
    TerminalInput,
}

/// The descriptor that is in the poller: the source's or the sink's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The source, polled for data.
    From,
    /// The source, after a hang-up that may not be final: polled edge-triggered (EPOLLET), so that the hang-up is not
    /// reported again.
    Hung,
    /// The sink, polled for space.
    To,
}

/// The result of one attempt to move data.
enum Step {
    /// This many bytes were moved.
    Moved(usize),
    /// The source has no data now.
    Empty,
    /// The sink has no space now.
    Full,
    /// No process has the program's terminal open now.
    Hung,
    /// The source has reached its end.
    Ended,
    /// The sink cannot be written to any more.
    Broken,
}

/// One direction of one stream.
#[derive(Debug)]
pub(super) struct Carrier {
    from: Rc<OwnedFd>,
    to: Sink,
    manner: Manner,
    splices: bool,
    /// Data that was read but not written yet, at most [`CHUNK`] bytes.
    rest: Vec<u8>,
    waits: Option<End>,
    /// A copy of a terminal's descriptor, which is in the poller while this carrier waits for the terminal's space. The
    /// descriptor itself may already be in the poller, for the terminal's output, and epoll(7) accepts it only once.
    copy: Option<OwnedFd>,
    /// If set, the stream ends as soon as the source has no data. The value is the maximum number of bytes that are
    /// still copied.
    last: Option<usize>,
    is_broken: bool,
}

impl Carrier {
    /// Returns a carrier from a non-blocking descriptor to a sink. `splices` may be true only if both are pipes.
    pub fn new(from: impl Into<Rc<OwnedFd>>, to: Sink, manner: Manner, splices: bool) -> Self {
        Self {
            from: from.into(),
            to,
            manner,
            splices,
            rest: Vec::new(),
            waits: None,
            copy: None,
            last: None,
            is_broken: false,
        }
    }

    /// Makes the stream end as soon as the source has no data.
    pub fn end_when_empty(&mut self) {
        self.last.get_or_insert(LAST);
    }

    /// Returns whether the carrier ended because the sink cannot be written to any more.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Moves data until the source or the sink is not ready, at most `turns` times. Then puts the end to wait for into
    /// the poller. Returns whether the stream continues.
    pub fn carry_up_to(&mut self, turns: usize, poller: &Poller, source: Source) -> bool {
        // After the exit of the program, the amount of data is limited by `last` instead.
        let turns = self.last.map_or(turns, |_| usize::MAX);
        for _ in 0..turns {
            match self.step() {
                Step::Moved(bytes) => {
                    if let Some(last) = &mut self.last {
                        *last = last.saturating_sub(bytes);
                        if *last == 0 && self.rest.is_empty() {
                            return false;
                        }
                    }
                }
                Step::Empty | Step::Hung if self.last.is_some() => return false,
                Step::Empty => return self.wait_for(End::From, poller, source),
                Step::Hung => return self.wait_for(End::Hung, poller, source),
                Step::Full => return self.wait_for(End::To, poller, source),
                Step::Ended => return false,
                Step::Broken if self.is_output() => {
                    self.stop_waiting(poller);
                    self.to = Sink::Nothing;
                    self.rest = Vec::new();
                }
                Step::Broken => {
                    self.is_broken = true;
                    return false;
                }
            }
        }
        let end = if self.rest.is_empty() { End::From } else { End::To };
        // The descriptor is registered again in any case: if it is already polled edge-triggered, no further event
        // might be reported.
        self.stop_waiting(poller);
        self.wait_for(end, poller, source)
    }

    /// Removes the carrier from the poller and returns the sink.
    pub fn leave(mut self, poller: &Poller) -> Sink {
        self.stop_waiting(poller);
        self.to
    }

    /// Returns whether the sink is full.
    #[cfg(test)]
    pub fn waits_for_room(&self) -> bool {
        self.waits == Some(End::To)
    }

    fn is_output(&self) -> bool {
        matches!(self.manner, Manner::Output | Manner::TerminalOutput)
    }

    /// Moves data once, as much as one system call moves.
    fn step(&mut self) -> Step {
        match &self.to {
            Sink::Flow(to) if self.splices => splice_once(self.from.as_fd(), to.as_fd()),
            Sink::Flow(_) if !self.rest.is_empty() => self.write_rest(),
            _ => self.copy_once(),
        }
    }

    fn copy_once(&mut self) -> Step {
        let mut buffer = [0; CHUNK];
        // At the end of the stream, data beyond the limit is not read.
        let room = self.last.map_or(CHUNK, |last| last.min(CHUNK));
        let chunk = match read(self.from.as_fd(), buffer.get_mut(..room).unwrap_or_default()) {
            Ok(0) => return Step::Ended,
            Ok(bytes) => buffer.get(..bytes).unwrap_or_default(),
            Err(Errno::AGAIN) => return Step::Empty,
            Err(Errno::INTR) => return Step::Moved(0),
            // A program may close its terminal and open it again, as systemd does with its console.
            Err(Errno::IO) if self.manner == Manner::TerminalOutput => return Step::Hung,
            Err(_) => return Step::Ended,
        };
        match &self.to {
            Sink::Nothing => {}
            Sink::File(file) => {
                let _ = sys::stdio::write_all(file, chunk);
            }
            Sink::Flow(_) => {
                self.rest.extend_from_slice(chunk);
                if let Step::Broken = self.write_rest() {
                    return Step::Broken;
                }
            }
        }
        Step::Moved(chunk.len())
    }

    fn write_rest(&mut self) -> Step {
        let Sink::Flow(to) = &self.to else { return Step::Moved(0) };
        match write(to.as_fd(), &self.rest) {
            Ok(bytes) if bytes == self.rest.len() => {
                // An idle stream keeps no buffer.
                self.rest = Vec::new();
                Step::Moved(0)
            }
            // A terminal whose output is stopped accepts nothing.
            Ok(0) | Err(Errno::AGAIN) => Step::Full,
            Ok(bytes) => {
                self.rest.drain(..bytes);
                Step::Moved(0)
            }
            Err(Errno::INTR) => Step::Moved(0),
            Err(_) => Step::Broken,
        }
    }

    /// Puts `end` into the poller instead of the other end. Returns whether that succeeded.
    fn wait_for(&mut self, end: End, poller: &Poller, source: Source) -> bool {
        if self.waits == Some(end) {
            return true;
        }
        self.stop_waiting(poller);
        let (fd, interest) = match (end, &self.to) {
            (End::From, _) => (self.from.as_fd(), Interest::IN),
            (End::Hung, _) => (self.from.as_fd(), Interest::IN | Interest::ET),
            // A terminal that no program has open reports a hang-up again and again, even while its buffer is full. So
            // it is polled edge-triggered.
            (End::To, Sink::Flow(to)) if self.manner == Manner::TerminalInput => {
                let Ok(copy) = fcntl_dupfd_cloexec(to.as_fd(), 3) else { return false };
                let copy: &OwnedFd = self.copy.insert(copy);
                (copy.as_fd(), Interest::OUT | Interest::ET)
            }
            (End::To, Sink::Flow(to)) => (to.as_fd(), Interest::OUT),
            (End::To, _) => return false,
        };
        match poller.add(fd, source, interest) {
            Ok(()) => {
                self.waits = Some(end);
                true
            }
            // epoll(7) refuses a regular file, which can always be read.
            Err(Errno::PERM) if end == End::From => self.wait_for(End::To, poller, source),
            Err(_) => false,
        }
    }

    fn stop_waiting(&mut self, poller: &Poller) {
        let copy = self.copy.take();
        let fd = match (self.waits.take(), &copy, &self.to) {
            (Some(End::From | End::Hung), ..) => self.from.as_fd(),
            (Some(End::To), Some(copy), _) => copy.as_fd(),
            (Some(End::To), None, Sink::Flow(to)) => to.as_fd(),
            _ => return,
        };
        // The descriptor is removed explicitly: a copy of it in a worker that has just started would keep it in the
        // poller even after it is closed here.
        let _ = poller.remove(fd);
    }
}

fn splice_once(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Step {
    match splice(from, None, to, None, SPLICED, SpliceFlags::NONBLOCK) {
        Ok(0) => Step::Ended,
        Ok(bytes) => Step::Moved(bytes),
        Err(Errno::INTR) => Step::Moved(0),
        Err(Errno::AGAIN) => why_not(from),
        Err(_) => Step::Broken,
    }
}

/// Returns which of the two pipes was not ready. The error of splice(2) does not distinguish between them.
fn why_not(from: BorrowedFd<'_>) -> Step {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(from, PollFlags::IN)];
    let events = match poll(&mut fds, Some(&now)) {
        Ok(1) => fds[0].revents(),
        _ => PollFlags::empty(),
    };
    if events.contains(PollFlags::IN) {
        // If the data has arrived only after splice(2), the sink may have space. Then the poller reports it at once.
        Step::Full
    } else if events.contains(PollFlags::HUP) {
        // The source has no writer. If it is empty, it has ended: splice(2) failed because it checks for space in the
        // sink before it checks for the end of the source. But the source need not be empty. poll(2) checks for data
        // before it checks for writers. In between, the last writer may have written data and closed the pipe.
        match ioctl_fionread(from) {
            Ok(0) => Step::Ended,
            _ => Step::Full,
        }
    } else {
        Step::Empty
    }
}
