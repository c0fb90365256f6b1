//! The side that answers calls: what a shim is to containerd.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::ttrpc::channel::{Channel, Closed, FULL, Frame};
use crate::ttrpc::frame::{LONGEST, flag, kind};
use crate::ttrpc::request::{Request, Response};
use crate::ttrpc::status::Status;

/// Calls of a connection that may wait for their answers at once; those beyond are refused.
pub const MOST_CALLS: usize = 1 << 14;

/// A call, to be answered by [`Connection::respond`] once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What names the call in the answer.
    pub stream: u32,
    /// The service, its full name.
    pub service: String,
    /// Which of its calls.
    pub method: String,
    /// What it takes: a message, encoded.
    pub payload: Vec<u8>,
    /// How many nanoseconds from now the caller will wait; `None` for ever.
    pub timeout: Option<u64>,
}

/// A connection that a client has made.
///
/// It holds no more than one frame of 4 MiB and a batch of 16 KiB that were read, and reads nothing more while
/// answers of 1 MiB wait for the client to take them. What the client does wrong is answered as Go's ttrpc
/// answers it, and the connection goes on.
#[derive(Debug)]
pub struct Connection {
    channel: Channel,
    /// The last stream that was opened: ids increase.
    last: u32,
    /// Streams whose calls have no answer yet.
    open: BTreeSet<u32>,
}

impl Connection {
    /// Of a connected stream socket. Whether it is O_NONBLOCK does not matter: no call waits.
    pub fn new(socket: OwnedFd) -> Self {
        Self { channel: Channel::new(socket), last: 0, open: BTreeSet::new() }
    }

    /// The socket, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Whether [`receive`](Self::receive) would read: to wait for input otherwise would be to spin.
    pub fn wants_to_read(&self) -> bool {
        self.channel.queued() < FULL
    }

    /// Whether there is something to [`flush`](Self::flush).
    pub fn wants_to_write(&self) -> bool {
        self.channel.queued() != 0
    }

    /// How many calls wait for their answer.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Reads what is there, by one recv(2) that does not wait, and returns the calls that are complete; those
    /// that are none are answered. Reads nothing while too much waits to be written.
    ///
    /// # Errors
    /// If the client has closed the connection, or it failed. What it had sent before was returned before.
    pub fn receive(&mut self) -> Result<Vec<Call>, Closed> {
        let mut calls = Vec::new();
        if self.wants_to_read() {
            let Self { channel, last, open } = self;
            channel.receive(|channel, frame| {
                let stream = frame.header.stream;
                match call(&frame, last, open) {
                    Ok(call) => calls.extend(call),
                    // An open call of that stream stays open.
                    Err(status) => answer(channel, stream, Err(status)),
                }
            })?;
        }
        Ok(calls)
    }

    /// Queues the answer of a call; nothing if the stream has no open call. An answer that is longer than a frame
    /// can be becomes an error (`RESOURCE_EXHAUSTED`).
    pub fn respond(&mut self, stream: u32, result: Result<Vec<u8>, Status>) {
        if self.open.remove(&stream) {
            answer(&mut self.channel, stream, result);
        }
    }

    /// Writes answers, as many as the client takes without waiting.
    ///
    /// # Errors
    /// If the client has closed the connection, or it failed.
    pub fn flush(&mut self) -> Result<(), Closed> {
        self.channel.flush()
    }
}

/// The call that a frame is; nothing if it is of a kind that is to be ignored.
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

/// Said of a message that is longer than a frame can be.
pub(super) fn too_long(length: usize) -> Status {
    Status::resource_exhausted(format!("a message of {length} bytes: {LONGEST} are possible"))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
