//! The server side, which a shim uses to answer containerd's calls.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::ttrpc::channel::{Channel, Closed, FULL, Frame};
use crate::ttrpc::frame::{LONGEST, flag, kind};
use crate::ttrpc::request::{Request, Response};
use crate::ttrpc::status::Status;

/// The maximum number of unanswered calls on a connection. Further calls are refused.
pub const MOST_CALLS: usize = 1 << 14;

/// A call. It must be answered exactly once, with [`Connection::respond`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The stream, which [`Connection::respond`] needs to identify the call.
    pub stream: u32,
    /// The full name of the service.
    pub service: String,
    /// The name of the call.
    pub method: String,
    /// The encoded message with the call's parameters.
    pub payload: Vec<u8>,
    /// The time left for the call, in nanoseconds; `None` means no timeout.
    pub timeout: Option<u64>,
}

/// A connection from a client.
///
/// The connection buffers at most one received frame of 4 MiB and a batch of 16 KiB. While at least 1 MiB of answers is
/// unwritten, nothing is received. As in Go's ttrpc, invalid requests are answered with errors, and the connection
/// stays open.
#[derive(Debug)]
pub struct Connection {
    channel: Channel,
    /// The last stream that was opened. The ids of streams must increase.
    last: u32,
    /// The streams of calls that were not answered yet.
    open: BTreeSet<u32>,
}

impl Connection {
    /// Returns a connection for a connected stream socket. The socket may be in blocking mode; no method waits.
    pub fn new(socket: OwnedFd) -> Self {
        Self { channel: Channel::new(socket), last: 0, open: BTreeSet::new() }
    }

    /// Returns the socket, for polling.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Returns whether [`receive`](Self::receive) would read from the socket. If false, do not poll for input: the poll
    /// would return at once, again and again.
    pub fn wants_to_read(&self) -> bool {
        self.channel.queued() < FULL
    }

    /// Returns whether there is unwritten data to [`flush`](Self::flush).
    pub fn wants_to_write(&self) -> bool {
        self.channel.queued() != 0
    }

    /// Returns the number of calls that were not answered yet.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Makes one recv(2) without waiting, and returns all complete calls. Invalid calls are answered with an error
    /// instead. While too many answers are unwritten, nothing is received.
    ///
    /// # Errors
    /// If the client has closed the connection, or the connection failed. All calls received before the error were
    /// already returned.
    pub fn receive(&mut self) -> Result<Vec<Call>, Closed> {
        let mut calls = Vec::new();
        if self.wants_to_read() {
            let Self { channel, last, open } = self;
            channel.receive(|channel, frame| {
                let stream = frame.header.stream;
                match call(&frame, last, open) {
                    Ok(call) => calls.extend(call),
                    // If the frame's stream has an unanswered call, that call can still be answered.
                    Err(status) => answer(channel, stream, Err(status)),
                }
            })?;
        }
        Ok(calls)
    }

    /// Queues the answer to a call. Does nothing if the stream has no unanswered call. If the answer is longer than a
    /// frame, an error (`RESOURCE_EXHAUSTED`) is sent instead.
    pub fn respond(&mut self, stream: u32, result: Result<Vec<u8>, Status>) {
        if self.open.remove(&stream) {
            answer(&mut self.channel, stream, result);
        }
    }

    /// Writes as many answers as the socket accepts without waiting.
    ///
    /// # Errors
    /// If the client has closed the connection, or the connection failed.
    pub fn flush(&mut self) -> Result<(), Closed> {
        self.channel.flush()
    }
}

/// Returns the call in a frame; `None` if the frame must be ignored.
fn call(
    frame: &Frame<'_>,
    last: &mut u32,
    open: &mut BTreeSet<u32>,
) -> Result<Option<Call>, Status> {
    let header = frame.header;
    if header.is_too_long() {
        return Err(too_long(header.length as usize));
    }
    if header.stream.is_multiple_of(2) {
        return Err(Status::invalid_argument(format!(
            "stream {}: ids of a client are odd",
            header.stream
        )));
    }
    match header.kind {
        kind::REQUEST => {}
        kind::DATA => {
            return Err(Status::invalid_argument(format!(
                "stream {} takes no data",
                header.stream
            )));
        }
        _ => return Ok(None),
    }
    if header.stream <= *last {
        return Err(Status::invalid_argument(format!(
            "stream {}: ids increase, and {last} was used",
            header.stream
        )));
    }
    *last = header.stream;
    let request = Request::decode(frame.content)
        .map_err(|malformed| Status::invalid_argument(format!("request: {malformed}")))?;
    if header.flags & flag::REMOTE_OPEN != 0 {
        return Err(Status::unimplemented(format!(
            "{}/{} takes no stream of data",
            request.service, request.method
        )));
    }
    if open.len() >= MOST_CALLS {
        return Err(Status::resource_exhausted(format!(
            "{MOST_CALLS} calls wait for their answers already"
        )));
    }
    open.insert(header.stream);
    Ok(Some(Call {
        stream: header.stream,
        service: request.service,
        method: request.method,
        payload: request.payload,
        timeout: match request.timeout_nano {
            0 => None,
            nanoseconds => Some(u64::try_from(nanoseconds).unwrap_or(0)),
        },
    }))
}

fn answer(channel: &mut Channel, stream: u32, result: Result<Vec<u8>, Status>) {
    let response = match result {
        Ok(payload) => Response { status: None, payload },
        Err(status) => Response { status: Some(status), payload: Vec::new() },
    };
    let mut content = response.encode();
    if content.len() > LONGEST {
        content = Response { status: Some(too_long(content.len())), payload: Vec::new() }.encode();
    }
    channel.queue(stream, kind::RESPONSE, &content);
}

/// Returns the error for a message that is longer than a frame.
pub(super) fn too_long(length: usize) -> Status {
    Status::resource_exhausted(format!("a message of {length} bytes: {LONGEST} are possible"))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
