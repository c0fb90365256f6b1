//! The memory of one restored process.

use alloc::vec::Vec;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use sys::userfault::{self, Event, Mapped};

use super::pending::{Pending, Range};

/// The result of an attempt to provide pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All pages are there, or their memory is gone.
    Done,
    /// An event must be read first, or memory is short.
    Later,
    /// The process has exited.
    Exited,
}

/// The memory of a process whose missing pages this server provides.
#[derive(Debug)]
pub(super) struct Space {
    /// The pid in the images. A process that was forked after the restore has that of its parent.
    pub pid: i32,
    pub uffd: OwnedFd,
    file: Mapped,
    page: u64,
    /// The pages that are in the image only.
    pub pending: Pending,
    /// The addresses at which threads wait.
    waiting: Vec<u64>,
    /// The former places of memory that was moved, until the kernel reports that they are unmapped.
    moved: Vec<(u64, u64)>,
    /// The addresses at which threads have waited.
    pub touched: Vec<u64>,
}

impl Space {
    pub fn new(pid: i32, uffd: OwnedFd, file: Mapped, page: u64, pending: Pending) -> Self {
        let (waiting, moved, touched) = (Vec::new(), Vec::new(), Vec::new());
        Self { pid, uffd, file, page, pending, waiting, moved, touched }
    }

    /// Reads all events. Returns whether there was one, and adds forked processes to `born`.
    ///
    /// The kernel lets no page be copied between a fork and the reading of its event. So the pages that are missing in
    /// the child are those that are missing in the parent now. This also holds for the other events. Between the two
    /// events of a move, another thread may move memory to the place that has become free.
    pub fn read_events(&mut self, born: &mut Vec<Self>) -> Result<bool, Errno> {
        let mut is_any = false;
        loop {
            match userfault::event(self.uffd.as_fd()) {
                Ok(Event::Fault(address)) => {
                    let address = address & !(self.page - 1);
                    self.waiting.push(address);
                    self.touched.push(address);
                }
                Ok(Event::Fork(uffd)) => {
                    let pending = self.pending.clone();
                    born.push(Self::new(self.pid, uffd, self.file, self.page, pending));
                }
                Ok(Event::Moved { from, to, len }) => {
                    self.pending.relocate(from, to, len);
                    self.moved.push((from, from.saturating_add(len)));
                }
                Ok(Event::Unmapped(start, end)) => {
                    match self.moved.iter().position(|place| *place == (start, end)) {
                        Some(index) => drop(self.moved.swap_remove(index)),
                        None => drop(self.pending.remove(start, end)),
                    }
                }
                Ok(Event::Discarded(start, end)) => drop(self.pending.remove(start, end)),
                Err(Errno::AGAIN) => return Ok(is_any),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            is_any = true;
        }
    }

    /// Provides the pages for which threads wait, with up to `ahead` bytes from each of them on.
    pub fn answer(&mut self, ahead: u64) -> Result<Progress, Errno> {
        while let Some(&address) = self.waiting.last() {
            let progress = match self.pending.at(address) {
                Ok(range) => self.copy(range, ahead)?,
                Err(_) => self.zero(address, address + self.page)?,
            };
            if progress != Progress::Done {
                return Ok(progress);
            }
            self.waiting.pop();
        }
        Ok(Progress::Done)
    }

    /// Provides all pages of a range of addresses: those of the image, and zeros in between.
    pub fn fetch(&mut self, start: u64, end: u64) -> Result<Progress, Errno> {
        let mut at = start;
        while at < end {
            let (progress, next) = match self.pending.at(at) {
                Ok(range) => (self.copy(range, end - at)?, range.end),
                Err(next) => (self.zero(at, next.min(end))?, next),
            };
            if progress != Progress::Done {
                return Ok(progress);
            }
            at = next;
        }
        Ok(Progress::Done)
    }

    /// Copies at most `most` bytes of a pending range.
    pub fn copy(&mut self, range: Range, most: u64) -> Result<Progress, Errno> {
        let end = range.end.min(range.start.saturating_add(most));
        let offset = range.offset.wrapping_sub(range.start);
        let (mut at, mut longest, mut is_again) = (range.start, u64::MAX, false);
        while at < end {
            let (uffd, offset) = (self.uffd.as_fd(), offset.wrapping_add(at));
            let len = longest.min(end - at);
            let (done, result) = userfault::copy(uffd, at, &self.file, offset, len);
            self.pending.remove(at, at + done);
            at += done;
            match result {
                Ok(()) | Err(Errno::AGAIN) if done > 0 => (longest, is_again) = (u64::MAX, false),
                // The kernel copies to one mapping only, and a range may be in several.
                Err(Errno::NOENT) if len > self.page => {
                    longest = (len / 2).next_multiple_of(self.page);
                }
                // The page's mapping has been moved or removed. As long as the event has not been read, the kernel
                // copies nothing more: EAGAIN.
                Err(Errno::NOENT) if !is_again => is_again = true,
                // The page is present already, or its mapping has never been registered, as after madvise(2) with
                // MADV_DONTFORK.
                Err(Errno::EXIST | Errno::NOENT) => {
                    self.pending.remove(at, at + self.page);
                    let _ = userfault::wake(self.uffd.as_fd(), at, self.page);
                    at += self.page;
                    (longest, is_again) = (u64::MAX, false);
                }
                result => return ended(result),
            }
        }
        Ok(Progress::Done)
    }

    /// Fills pages with zeros, up to the first one that is not in registered memory.
    fn zero(&mut self, start: u64, end: u64) -> Result<Progress, Errno> {
        let mut at = start;
        while at < end {
            let (done, result) = userfault::zero(self.uffd.as_fd(), at, end - at);
            at += done;
            match result {
                Ok(()) | Err(Errno::AGAIN) if done > 0 => {}
                Err(errno @ (Errno::EXIST | Errno::NOENT | Errno::INVAL)) => {
                    let _ = userfault::wake(self.uffd.as_fd(), at, self.page);
                    at = if errno == Errno::EXIST { at + self.page } else { end };
                }
                result => return ended(result),
            }
        }
        Ok(Progress::Done)
    }
}

/// Returns what the result of a call means that has provided nothing.
fn ended(result: Result<(), Errno>) -> Result<Progress, Errno> {
    match result {
        Ok(()) | Err(Errno::AGAIN | Errno::NOMEM) => Ok(Progress::Later),
        Err(Errno::SRCH) => Ok(Progress::Exited),
        Err(errno) => Err(errno),
    }
}
