//! A blob that is being read: where its download breaks off it is taken up again.

use super::transfer::{PROGRESS, Transfer, of_reader};
use super::{Document, Remote, failed};
use report::interrupt;
use std::io::{self, Read};
use std::thread;
use std::time::Duration;

/// How often a blob's download is taken up again where it broke off, without coming any further: by less than
/// [`PROGRESS`].
const TRIES: u32 = 4;
/// How many times a blob's length may be received again and thrown away: a registry that does not know ranges sends
/// everything anew each time.
const REPEATS: u64 = 8;
/// What a registry gets between that to come back, more each time.
const PAUSE: Duration = Duration::from_millis(300);

/// A blob that is being read.
pub struct Download<'a> {
    remote: &'a Remote,
    document: Document,
    /// None after an error: what is left of an old body is not read.
    body: Option<Transfer>,
    at: u64,
    size: u64,
    /// What came since the last try counted as none.
    progress: u64,
    tries: u32,
    /// Bytes that came again and were thrown away.
    repeated: u64,
}

impl<'a> Download<'a> {
    /// The blob `document` of `size` bytes, whose beginning comes from `body`.
    pub fn new(remote: &'a Remote, document: Document, body: Transfer, size: u64) -> Self {
        Self {
            remote,
            document,
            body: Some(body),
            at: 0,
            size,
            progress: 0,
            tries: TRIES,
            repeated: 0,
        }
    }

    /// Reads on, from a new body if there is none. The end before its time is an error.
    fn read_on(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let body = match &mut self.body {
            Some(body) => body,
            none => none.insert(
                self.remote.open(&self.document, self.at, &mut self.repeated).map_err(of_reader)?,
            ),
        };
        match body.read(buffer)? {
            0 if self.at < self.size && !buffer.is_empty() => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            count => Ok(count),
        }
    }
}

impl Read for Download<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let cause = match self.read_on(buffer) {
                Ok(count) => {
                    self.at += count as u64;
                    self.progress += count as u64;
                    if self.progress >= PROGRESS {
                        (self.progress, self.tries) = (0, TRIES);
                    }
                    return Ok(count);
                }
                Err(error) => error,
            };
            self.body = None;
            interrupt::check().map_err(|interrupted| of_reader(interrupted.into()))?;
            self.tries = self.tries.saturating_sub(1);
            if self.tries == 0 || self.repeated / REPEATS > self.size {
                let reason = format!("given up after {} of {} bytes: {cause}", self.at, self.size);
                return Err(of_reader(failed(&self.document.what, reason)));
            }
            self.progress = 0;
            thread::sleep(PAUSE * (TRIES - self.tries));
        }
    }
}
