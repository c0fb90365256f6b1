//! The side that calls: what a shim is when it publishes events.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::ttrpc::channel::{Channel, Closed, Frame};
use crate::ttrpc::frame::{LONGEST, kind};
use crate::ttrpc::request::{Request, Response};
use crate::ttrpc::server::too_long;
use crate::ttrpc::status::{Status, code};

/// What a call returned: its stream, and a message or what went wrong.
pub type Answer = (u32, Result<Vec<u8>, Status>);

/// A connection to a server.
///
/// It holds no more than one frame of 4 MiB and a batch of 16 KiB that were read. How much waits to be written is
/// the caller's business: [`queued`](Self::queued) tells.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// The stream of the next call; `None` when all were used.
    next: Option<u32>,
    /// Streams whose calls have no answer yet.
    open: BTreeSet<u32>,
    /// Answers that need no server.
    refused: Vec<Answer>,
}

impl Client {
    /// Of a connected stream socket. Whether it is O_NONBLOCK does not matter: no call waits.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            channel: Channel::new(socket),
            next: Some(1),
            open: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    /// The socket, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Whether there is something to [`flush`](Self::flush).
    pub fn wants_to_write(&self) -> bool {
        self.channel.queued() != 0
    }

    /// Bytes that wait to be written.
    pub fn queued(&self) -> usize {
        self.channel.queued()
    }

    /// How many calls wait for their answer.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Queues a call and returns its stream, by which [`receive`](Self::receive) names the answer. The server is
    /// not told of a limit of time. A call that is too long is answered by `receive`, too; when all 2^31 streams
    /// were used, `flush` and `receive` say [`Closed::Exhausted`] from then on.
    pub fn call(&mut self, service: &str, method: &str, payload: Vec<u8>) -> u32 {
        self.call_within(0, service, method, payload)
    }

    /// As [`call`](Self::call); the server is told that an answer after so many nanoseconds is of no use, unless
    /// that is 0. Who calls keeps the time: see [`forget`](Self::forget).
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

    /// Stops to wait for a call's answer, which is dropped when it comes.
    pub fn forget(&mut self, stream: u32) {
        self.open.remove(&stream);
    }

    /// Reads what is there, by one recv(2) that does not wait, and returns the answers that are complete.
    ///
    /// # Errors
    /// If the server has closed the connection, or it failed: no open call will be answered. What it had sent
    /// before was returned before.
    pub fn receive(&mut self) -> Result<Vec<Answer>, Closed> {
        self.usable()?;
        let mut answers = core::mem::take(&mut self.refused);
        let Self { channel, open, .. } = self;
        channel.receive(|_, frame| {
            let stream = frame.header.stream;
            // Others were forgotten, or never made.
            if open.remove(&stream) {
                answers.push((stream, answer(&frame)));
            }
        })?;
        Ok(answers)
    }

    /// Writes calls, as many as the server takes without waiting.
    ///
    /// # Errors
    /// If the server has closed the connection, or it failed.
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
