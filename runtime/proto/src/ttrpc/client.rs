//! The client side, which a shim uses to publish events.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::ttrpc::channel::{Channel, Closed, Frame};
use crate::ttrpc::frame::{LONGEST, kind};
use crate::ttrpc::request::{Request, Response};
use crate::ttrpc::server::too_long;
use crate::ttrpc::status::{Status, code};

/// The answer to a call: the call's stream, and a message or an error.
pub type Answer = (u32, Result<Vec<u8>, Status>);

/// A connection to a server.
///
/// The client buffers at most one received frame of 4 MiB and a batch of 16 KiB. The caller must limit the amount of
/// unwritten data: see [`queued`](Self::queued).
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// The stream of the next call; `None` if all stream ids are used up.
    next: Option<u32>,
    /// The streams of calls that were not answered yet.
    open: BTreeSet<u32>,
    /// The errors for calls that the client itself has refused to send.
    refused: Vec<Answer>,
}

impl Client {
    /// Returns a client for a connected stream socket. The socket may be in blocking mode; no method waits.
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

    /// Returns whether there is unwritten data to [`flush`](Self::flush).
    pub fn wants_to_write(&self) -> bool {
        self.channel.queued() != 0
    }

    /// Returns the number of unwritten bytes.
    pub fn queued(&self) -> usize {
        self.channel.queued()
    }

    /// Returns the number of calls that were not answered yet.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Queues a call and returns its stream, which [`receive`](Self::receive) returns together with the answer. No
    /// timeout is sent to the server. For a call that is too long, `receive` returns an error as the answer. Once all
    /// 2^31 streams were used, `flush` and `receive` return [`Closed::Exhausted`].
    pub fn call(&mut self, service: &str, method: &str, payload: Vec<u8>) -> u32 {
        self.call_within(0, service, method, payload)
    }

    /// Queues a call like [`call`](Self::call). If `timeout`, in nanoseconds, is not 0, it is sent to the server. The
    /// client itself does not enforce the timeout; the caller can do so with [`forget`](Self::forget).
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

    /// Forgets a call. An answer that arrives later is dropped.
    pub fn forget(&mut self, stream: u32) {
        self.open.remove(&stream);
    }

    /// Makes one recv(2) without waiting, and returns all complete answers.
    ///
    /// # Errors
    /// If the server has closed the connection, or the connection failed. No further calls will be answered. All
    /// answers received before the error were already returned.
    pub fn receive(&mut self) -> Result<Vec<Answer>, Closed> {
        self.usable()?;
        let mut answers = core::mem::take(&mut self.refused);
        let Self { channel, open, .. } = self;
        channel.receive(|_, frame| {
            let stream = frame.header.stream;
            // The answers to forgotten calls, and to calls that were never made, are dropped.
            if open.remove(&stream) {
                answers.push((stream, answer(&frame)));
            }
        })?;
        Ok(answers)
    }

    /// Writes as many calls as the socket accepts without waiting.
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
            "a frame of kind {} is not a response",
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
