//! A socket that transfers frames; used by both sides of a connection.

use alloc::vec::Vec;

use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::ttrpc::frame::{HEADER, Header, LONGEST};

/// The number of bytes that one receive may read in addition to the rest of an incomplete frame.
pub(super) const BATCH: usize = 16 << 10;
/// If at least this number of bytes is unwritten, no more requests are read.
pub(super) const FULL: usize = 1 << 20;
/// The size up to which a buffer is kept for the next frame. A larger buffer is freed.
const KEPT: usize = 64 << 10;

/// The reason why a connection can no longer be used. The connection must be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The peer has closed the connection.
    #[error("the other side has closed the connection")]
    Ended,
    /// A system call failed.
    #[error("connection: {0}")]
    Failed(Errno),
    /// All stream ids of the connection were used, so a new connection is needed.
    #[error("the connection has used all of its stream ids")]
    Exhausted,
}

/// A received frame.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub header: Header,
    /// The contents; empty if the frame is too long, in which case its contents are skipped.
    pub content: &'a [u8],
}

/// A socket that transfers frames.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    /// Received bytes of an incomplete frame.
    input: Vec<u8>,
    /// The number of bytes of an oversized frame that must still be skipped.
    skip: usize,
    /// The encoded frames to write. `written` is the number of these bytes that were already written.
    output: Vec<u8>,
    written: usize,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, input: Vec::new(), skip: 0, output: Vec::new(), written: 0 }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the number of unwritten bytes.
    pub fn queued(&self) -> usize {
        self.output.len() - self.written
    }

    /// Receives once, without waiting, and passes each complete frame to `take`, in the order of arrival.
    pub fn receive(&mut self, mut take: impl FnMut(&mut Self, Frame<'_>)) -> Result<(), Closed> {
        self.input.reserve_exact(self.expected() + BATCH);
        match rustix::net::recv(&self.socket, spare_capacity(&mut self.input), RecvFlags::DONTWAIT)
        {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Err(Closed::Ended),
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(Closed::Failed(errno)),
        }
        // `input` is moved out of `self`, because `take` needs `self` to queue answers.
        let mut input = core::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        while let Some(frame) = self.next(&mut rest) {
            take(self, frame);
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        self.input = input;
        self.give_back();
        Ok(())
    }

    /// Returns the number of bytes of the first frame in `input` that are still missing; 0 if the
    /// frame's length is unknown.
    fn expected(&self) -> usize {
        match self.input.first_chunk() {
            Some(bytes) => {
                (HEADER + Header::decode(*bytes).length as usize).saturating_sub(self.input.len())
            }
            None => 0,
        }
    }

    /// Removes the first frame from `bytes` and returns it, if it is complete.
    fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        *bytes = bytes.get(skipped..)?;
        let (header, rest) = bytes.split_first_chunk()?;
        let header = Header::decode(*header);
        if header.is_too_long() {
            self.skip = header.length as usize;
            *bytes = rest;
            return Some(Frame { header, content: &[] });
        }
        let (content, rest) = rest.split_at_checked(header.length as usize)?;
        *bytes = rest;
        Some(Frame { header, content })
    }

    /// Frees the memory of the input buffer that the next frame does not need.
    fn give_back(&mut self) {
        if self.input.is_empty() {
            self.input = Vec::new();
            return;
        }
        let wanted = self.input.len() + self.expected() + BATCH;
        if self.input.capacity() > wanted + KEPT {
            self.input.shrink_to(wanted);
        }
    }

    /// Queues a frame. The caller must ensure that the contents are not longer than [`LONGEST`].
    pub fn queue(&mut self, stream: u32, kind: u8, content: &[u8]) {
        debug_assert!(content.len() <= LONGEST, "{} bytes", content.len());
        self.output.extend_from_slice(&Header::new(content.len(), stream, kind).encode());
        self.output.extend_from_slice(content);
    }

    /// Writes as many bytes as the socket accepts without waiting. If the peer has closed the connection, there is no
    /// SIGPIPE.
    pub fn flush(&mut self) -> Result<(), Closed> {
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&self.socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Closed::Ended),
                Err(errno) => return Err(Closed::Failed(errno)),
            }
        }
        if self.queued() == 0 {
            self.output.clear();
            self.written = 0;
            self.output.shrink_to(KEPT);
        } else if self.written > KEPT {
            self.output.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }
}
