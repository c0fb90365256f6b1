//! Downloads a blob, and resumes the download after interruptions.

use super::transfer::{PROGRESS, Transfer};
use super::{Document, Remote, failed};
use crate::error::Error;
use report::interrupt;
use std::io::{self, Read};
use std::thread;
use std::time::Duration;

/// The number of failures after which a download is given up. The count restarts whenever [`PROGRESS`] bytes have been
/// received.
const TRIES: u32 = 4;
/// The maximum number of bytes that are received again and discarded, as a multiple of the blob's length. A registry
/// that does not support range requests sends the blob from its beginning each time.
const REPEATS: u64 = 8;
/// The pause before resuming, which grows with each attempt.
const PAUSE: Duration = Duration::from_millis(300);

/// A blob that is being downloaded.
pub struct Download<'a> {
    remote: &'a Remote,
    document: Document,
    /// The response body that is being read. It is `None` after an error: the rest of that body is discarded, and a new
    /// request is sent.
    body: Option<Transfer>,
    at: u64,
    size: u64,
    /// The number of bytes received since the start of the current attempt, or since `progress` last reached
    /// `PROGRESS`.
    progress: u64,
    tries: u32,
    /// The number of bytes received again and discarded.
    repeated: u64,
}

impl<'a> Download<'a> {
    /// Returns the download of the blob `document`, which has `size` bytes. `body` is the body of the first response.
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

    /// Reads more bytes, requesting a new body if there is none. A premature end is an error.
    fn read_on(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let body = match &mut self.body {
            Some(body) => body,
            none => none.insert(
                self.remote
                    .open(&self.document, self.at, &mut self.repeated)
                    .map_err(io::Error::other)?,
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
            interrupt::check().map_err(|interrupted| io::Error::other(Error::from(interrupted)))?;
            self.tries = self.tries.saturating_sub(1);
            if self.tries == 0 || self.repeated / REPEATS > self.size {
                let reason = format!("given up after {} of {} bytes: {cause}", self.at, self.size);
                return Err(io::Error::other(failed(&self.document.what, reason)));
            }
            self.progress = 0;
            thread::sleep(PAUSE * (TRIES - self.tries));
        }
    }
}
