//! One direction of one stream: what can be read here is written there, as it finds room.
//!
//! Of the two ends, one is in the poller at a time: the one that is waited for. The other would be reported again and
//! again while nothing can be done about it, since epoll(7) tells of hang-ups that nobody has asked about.

use alloc::vec::Vec;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::{SpliceFlags, splice};

use crate::poller::{Interest, Poller, Source};

/// Bytes that are read at a time where they can't be spliced, and so the most that is kept.
const CHUNK: usize = 4096;
/// Bytes that are spliced at a time at most; a pipe holds no more, unless root has said so.
const SPLICED: usize = 1 << 20;
/// How often a carrier moves something before others have their turn.
pub(super) const TURNS: usize = 4;
/// Bytes that are read at most from a terminal whose program has ended: more than one holds.
const LAST: usize = 256 << 10;

/// Where it goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// A pipe, a FIFO or a terminal, non-blocking: takes what it has room for.
    Flow(OwnedFd),
    /// A file, which always has room. What it refuses (ENOSPC, EIO) is lost, so that the program goes on.
    File(OwnedFd),
    /// Is thrown away.
    Nothing,
}

/// How the two ends are to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// A program's output from its pipe, which is taken off also when nobody wants it.
    Output,
    /// A program's output from its terminal, likewise.
    TerminalOutput,
    /// Input for a program's pipe.
    Input,
    /// Input for a program's terminal.
    TerminalInput,
}

/// Which end is in the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The source, for input.
    From,
    /// The source, which has hung up but may come back: to be told of changes only.
    Hung,
    /// The sink, for room.
    To,
}

/// What one try has come to.
enum Step {
    /// So many bytes were taken off the source.
    Moved(usize),
    /// There is nothing to read now.
    Empty,
    /// There is no room now.
    Full,
    /// Nobody has a terminal open now.
    Hung,
    /// There is nothing to read any more.
    Ended,
    /// Nothing can be written any more.
    Broken,
}

/// One direction of one stream.
#[derive(Debug)]
pub(super) struct Carrier {
    from: OwnedFd,
    to: Sink,
    manner: Manner,
    splices: bool,
    /// What was read and not yet written, at most [`CHUNK`].
    rest: Vec<u8>,
    waits: Option<End>,
    /// Bytes that are yet carried at most, if it ends as soon as there is nothing to read.
    last: Option<usize>,
    is_broken: bool,
}

impl Carrier {
    /// From a non-blocking descriptor to a sink. `splices`: both are pipes.
    pub fn new(from: OwnedFd, to: Sink, manner: Manner, splices: bool) -> Self {
        Self {
            from,
            to,
            manner,
            splices,
            rest: Vec::new(),
            waits: None,
            last: None,
            is_broken: false,
        }
    }

    /// From now on the source ends where there is nothing to read.
    pub fn end_when_empty(&mut self) {
        self.last.get_or_insert(LAST);
    }

    /// Whether it ended since nothing can be written any more.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Carries over what there is, `turns` times at most; then waits for what is missing. Whether it goes on.
    pub fn carry_up_to(&mut self, turns: usize, poller: &Poller, source: Source) -> bool {
        // What is carried at the end is bounded by itself.
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
        // Anew in any case: of an end that is told of changes only, there might be none.
        self.stop_waiting(poller);
        self.wait_for(end, poller, source)
    }

    /// Out of the poller, and taken apart: what remains is the sink.
    pub fn leave(mut self, poller: &Poller) -> Sink {
        self.stop_waiting(poller);
        self.to
    }

    /// Whether the sink is full.
    #[cfg(test)]
    pub fn waits_for_room(&self) -> bool {
        self.waits == Some(End::To)
    }

    fn is_output(&self) -> bool {
        matches!(self.manner, Manner::Output | Manner::TerminalOutput)
    }

    /// Moves something, once.
    fn step(&mut self) -> Step {
        match &self.to {
            Sink::Flow(to) if self.splices => splice_once(self.from.as_fd(), to.as_fd()),
            Sink::Flow(_) if !self.rest.is_empty() => self.write_rest(),
            _ => self.copy_once(),
        }
    }

    fn copy_once(&mut self) -> Step {
        let mut buffer = [0; CHUNK];
        // At the end of all, what there is beyond its bound is not for us.
        let room = self.last.map_or(CHUNK, |last| last.min(CHUNK));
        let chunk = match read(&self.from, buffer.get_mut(..room).unwrap_or_default()) {
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
        match write(to, &self.rest) {
            Ok(bytes) if bytes == self.rest.len() => {
                // Nothing is kept of a stream that is quiet.
                self.rest = Vec::new();
                Step::Moved(0)
            }
            // A terminal that is stopped takes nothing.
            Ok(0) | Err(Errno::AGAIN) => Step::Full,
            Ok(bytes) => {
                self.rest.drain(..bytes);
                Step::Moved(0)
            }
            Err(Errno::INTR) => Step::Moved(0),
            Err(_) => Step::Broken,
        }
    }

    /// Has `end` in the poller and nothing else. Whether that is so.
    fn wait_for(&mut self, end: End, poller: &Poller, source: Source) -> bool {
        if self.waits == Some(end) {
            return true;
        }
        self.stop_waiting(poller);
        let (fd, interest) = match (end, &self.to) {
            (End::From, _) => (self.from.as_fd(), Interest::IN),
            (End::Hung, _) => (self.from.as_fd(), Interest::IN | Interest::ET),
            // A terminal without a program hangs up, also when it is full.
            (End::To, Sink::Flow(to)) if self.manner == Manner::TerminalInput => {
                (to.as_fd(), Interest::OUT | Interest::ET)
            }
            (End::To, Sink::Flow(to)) => (to.as_fd(), Interest::OUT),
            (End::To, _) => return false,
        };
        match poller.add(fd, source, interest) {
            Ok(()) => {
                self.waits = Some(end);
                true
            }
            // A regular file can always be read.
            Err(Errno::PERM) if end == End::From => self.wait_for(End::To, poller, source),
            Err(_) => false,
        }
    }

    fn stop_waiting(&mut self, poller: &Poller) {
        let fd = match (self.waits.take(), &self.to) {
            (Some(End::From | End::Hung), _) => self.from.as_fd(),
            (Some(End::To), Sink::Flow(to)) => to.as_fd(),
            _ => return,
        };
        // By name, since a worker that has just begun may have a copy, which keeps it in the poller over a close.
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

/// Which of two pipes it was that could not be spliced now; the kernel does not say.
fn why_not(from: BorrowedFd<'_>) -> Step {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(from, PollFlags::IN)];
    let events = match poll(&mut fds, Some(&now)) {
        Ok(1) => fds[0].revents(),
        _ => PollFlags::empty(),
    };
    if events.contains(PollFlags::IN) {
        // Should it have come to have something only now, the sink is reported at once.
        Step::Full
    } else if events.contains(PollFlags::HUP) {
        // Before it looks whether the source is at its end, splice(2) looks whether there is room. But between poll(2)'s
        // two looks, at the contents and at the writers, the last one may have written something and gone.
        match ioctl_fionread(from) {
            Ok(0) => Step::Ended,
            _ => Step::Full,
        }
    } else {
        Step::Empty
    }
}
