//! The client: used by a shim that publishes events.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::ttrpc::channel::{Channel, Closed, Frame};
use crate::ttrpc::frame::{LONGEST, kind};
use crate::ttrpc::request::{Request, Response};
use crate::ttrpc::server::too_long;
use crate::ttrpc::status::{Status, code};

/// The result of a call: its stream, and a message or an error.
pub type Answer = (u32, Result<Vec<u8>, Status>);

/// A connection to a server.
///
/// The client holds at most one received frame of 4 MiB and a batch of 16 KiB. The caller limits the amount of
/// unwritten data: see [`queued`](Self::queued).
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// The stream of the next call; `None` if all stream ids are used up.
    next: Option<u32>,
    /// Streams of unanswered calls.
    open: BTreeSet<u32>,
    /// Answers made by the client itself, for calls that it did not send.
    refused: Vec<Answer>,
}

impl Client {
    /// Returns a client on a connected stream socket, blocking or not: no call waits.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            channel: Channel::new(socket),
            next: Some(1),
            open: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    /// Returns the socket, for polling.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Returns whether there is something to [`flush`](Self::flush).
    pub fn wants_to_write(&self) -> bool {
        self.channel.queued() != 0
    }

    /// Returns the number of unwritten bytes.
    pub fn queued(&self) -> usize {
        self.channel.queued()
    }

    /// Returns the number of unanswered calls.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Queues a call and returns its stream, by which [`receive`](Self::receive) identifies the answer. The server gets
    /// no timeout. A call that is too long is also answered by `receive`; once all 2^31 streams are used, `flush` and
    /// `receive` return [`Closed::Exhausted`].
    pub fn call(&mut self, service: &str, method: &str, payload: Vec<u8>) -> u32 {
        self.call_within(0, service, method, payload)
    }

    /// Queues a call like [`call`](Self::call), and sends the timeout in nanoseconds to the server, unless it is zero.
    /// The caller enforces the timeout: see [`forget`](Self::forget).
    pub fn call_within(
        &mut self,
        timeout: i64,
        service: &str,
        method: &str,
        payload: Vec<u8>,
    ) -> u32 {
        let Some(stream) = self.next else { return 0 };
        let request = Request {
            service: service.into(),
            method: method.into(),
            payload,
            timeout_nano: timeout,
            metadata: Vec::new(),
        };
        let content = request.encode();
        if content.len() > LONGEST {
            self.refused.push((stream, Err(too_long(content.len()))));
        } else {
            self.channel.queue(stream, kind::REQUEST, &content);
            self.open.insert(stream);
        }
        self.next = stream.checked_add(2);
        stream
    }

    /// Forgets a call, whose answer is dropped when it arrives.
    pub fn forget(&mut self, stream: u32) {
        self.open.remove(&stream);
    }

    /// Receives with one recv(2) that does not wait, and returns the complete answers.
    ///
    /// # Errors
    /// If the server has closed the connection, or the connection failed: no open call will be answered. Answers
    /// received before were already returned.
    pub fn receive(&mut self) -> Result<Vec<Answer>, Closed> {
        self.usable()?;
        let mut answers = core::mem::take(&mut self.refused);
        let Self { channel, open, .. } = self;
        channel.receive(|_, frame| {
            let stream = frame.header.stream;
            // Other calls were forgotten, or never made.
            if open.remove(&stream) {
                answers.push((stream, answer(&frame)));
            }
        })?;
        Ok(answers)
    }

    /// Writes as many calls as the server accepts without waiting.
    ///
    /// # Errors
    /// If the server has closed the connection, or the connection failed.
    pub fn flush(&mut self) -> Result<(), Closed> {
        self.usable()?;
        self.channel.flush()
    }

    fn usable(&self) -> Result<(), Closed> {
        self.next.map(drop).ok_or(Closed::Exhausted)
    }
}

fn answer(frame: &Frame<'_>) -> Result<Vec<u8>, Status> {
    if frame.header.is_too_long() {
        return Err(too_long(frame.header.length as usize));
    }
    if frame.header.kind != kind::RESPONSE {
        return Err(Status::internal(format!(
            "a frame of kind {} is no answer",
            frame.header.kind
        )));
    }
    let response = Response::decode(frame.content)
        .map_err(|malformed| Status::internal(format!("response: {malformed}")))?;
    match response.status {
        Some(status) if status.code != code::OK => Err(status),
        _ => Ok(response.payload),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
