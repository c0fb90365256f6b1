//! Both sides of a ttrpc connection, with arbitrary bytes from the peer.

use std::fmt::Debug;

use proto::ttrpc::frame::{HEADER, Header, LONGEST, kind};
use proto::ttrpc::request::{Request, Response};
use proto::ttrpc::{Call, Client, Closed, Connection, Status};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::allocation::peak;

/// The maximum memory, in bytes, besides [`GROWTH`] for each byte of input: the longest frame, and batches.
const ROOM: u64 = LONGEST as u64 + (256 << 10);
const GROWTH: u64 = 200;

/// Sends the input, cut into pieces, to a server and to a client. The input's first byte controls how the others are
/// cut.
pub fn target(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else { return };
    let ((calls, answers), memory) = peak(|| serve(bytes, *cut));
    assert!(memory <= ROOM + GROWTH * bytes.len() as u64, "{memory} bytes for {}", bytes.len());
    let whole = serve(bytes, 0);
    assert_eq!(calls, whole.0, "in pieces");
    assert_eq!(answers, whole.1, "in pieces");
    calls.into_iter().for_each(same_again);
    client(bytes, *cut);
}

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .expect("socketpair")
}

/// Splits bytes into pieces of up to 255 bytes, or of 1 KiB if `cut` is 0.
fn pieces(bytes: &[u8], cut: u8) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut state) = (bytes, u32::from(cut));
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = if cut == 0 { 1024 } else { 1 + (state >> 24) as usize % usize::from(cut) };
        let (piece, more) = rest.split_at(length.min(rest.len()));
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Sends all bytes, as fast as the receiver reads them.
fn give<T: Debug>(
    to: &OwnedFd,
    mut bytes: &[u8],
    mut take: impl FnMut() -> Result<Vec<T>, Closed>,
) -> Vec<T> {
    let mut taken = Vec::new();
    while !bytes.is_empty() {
        let sent = send(to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0);
        bytes = &bytes[sent..];
        taken.extend(take().expect("an open connection"));
    }
    taken
}

/// Reads all bytes that have arrived.
fn drain(from: &OwnedFd, bytes: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    while let Ok((_, count @ 1..)) = recv(from, &mut buffer[..], RecvFlags::DONTWAIT) {
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Runs a server on the bytes; returns the calls, each answered at once, and all bytes that the server sent.
fn serve(bytes: &[u8], cut: u8) -> (Vec<Call>, Vec<u8>) {
    let (server, client) = pair();
    let mut connection = Connection::new(server);
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces(bytes, cut) {
        let new = give(&client, piece, || connection.receive());
        // Each call is answered twice: the second response on a stream must be ignored.
        for call in new.iter().chain(&new) {
            let payload = call.method.as_bytes();
            connection.respond(
                call.stream,
                if call.stream & 2 == 0 { Ok(payload.into()) } else { Err(Status::unknown("")) },
            );
        }
        assert_eq!(connection.open(), 0);
        calls.extend(new);
        while connection.wants_to_write() {
            connection.flush().expect("an open connection");
            drain(&client, &mut answers);
        }
        assert!(connection.wants_to_read());
    }
    assert!(calls.is_sorted_by(|one, next| one.stream < next.stream), "streams increase");
    drop(client);
    assert_eq!(connection.receive(), Err(Closed::Ended));
    assert_answers(&answers);
    // The sizes of the pieces may change the order of the answers, but not their content.
    let mut sorted: Vec<Vec<u8>> =
        frames(&answers).map(|(header, content)| [&header.encode(), content].concat()).collect();
    sorted.sort();
    (calls, sorted.concat())
}

/// Splits bytes into frames.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let header = Header::decode(*header);
        let (content, rest) = rest.split_at_checked(header.length as usize).expect("whole frames");
        bytes = rest;
        Some((header, content))
    })
}

fn assert_answers(bytes: &[u8]) {
    for (header, content) in frames(bytes) {
        assert_eq!((header.kind, header.flags), (kind::RESPONSE, 0));
        Response::decode(content).expect("a response");
    }
}

/// Checks that encoding and decoding does not change a call.
fn same_again(call: Call) {
    let request = Request {
        service: call.service.clone(),
        method: call.method.clone(),
        payload: call.payload.clone(),
        timeout_nano: match call.timeout {
            None => 0,
            Some(0) => -1,
            Some(nanoseconds) => i64::try_from(nanoseconds).expect("not longer than it was"),
        },
        metadata: Vec::new(),
    };
    let content = request.encode();
    let header =
        Header { length: content.len() as u32, stream: call.stream, kind: kind::REQUEST, flags: 0 };
    let (server, client) = pair();
    let mut connection = Connection::new(server);
    let again = give(&client, &[&header.encode()[..], &content].concat(), || connection.receive());
    assert_eq!(again, [call]);
}

/// Runs a client that waits for the answers to a few calls.
fn client(bytes: &[u8], cut: u8) {
    let (ours, server) = pair();
    let mut client = Client::new(ours);
    let calls: Vec<u32> = (0..4).map(|_| client.call("s", "m", Vec::new())).collect();
    client.forget(calls[3]);
    let mut streams: Vec<u32> = pieces(bytes, cut)
        .flat_map(|piece| give(&server, piece, || client.receive()))
        .map(|(stream, _)| stream)
        .collect();
    assert_eq!(streams.len() + client.open(), 3);
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len() + client.open(), 3);
    assert!(streams.iter().all(|stream| calls[..3].contains(stream)));
}
