//! Tests of server connections over a socket pair. The tests write the frames of the client byte by byte.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::ttrpc::channel::BATCH;
use crate::ttrpc::frame::{HEADER, Header};
use crate::ttrpc::request::KeyValue;
use crate::ttrpc::status::code;

fn pair() -> (Connection, OwnedFd) {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("socketpair");
    (Connection::new(ours), theirs)
}

fn frame(stream: u32, kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
    let header = Header { flags, ..Header::new(content.len(), stream, kind) };
    [&header.encode()[..], content].concat()
}

fn request(stream: u32, method: &str, payload: &[u8]) -> Vec<u8> {
    let request = Request {
        service: "s".into(),
        method: method.into(),
        payload: payload.into(),
        timeout_nano: 7,
        metadata: vec![KeyValue { key: "k".into(), value: "v".into() }],
    };
    frame(stream, kind::REQUEST, 0, &request.encode())
}

fn send(to: &OwnedFd, bytes: &[u8]) {
    assert_eq!(rustix::io::write(to, bytes), Ok(bytes.len()));
}

/// Returns the contents of all frames that the client has received.
fn answers(connection: &mut Connection, from: &OwnedFd) -> Vec<(u32, Response)> {
    connection.flush().expect("flush");
    let mut bytes = vec![0; 1 << 20];
    let count = rustix::net::recv(from, &mut bytes[..], rustix::net::RecvFlags::DONTWAIT)
        .map_or(0, |(_, count)| count);
    let mut rest = &bytes[..count];
    let mut answers = Vec::new();
    while let Some((header, more)) = rest.split_first_chunk::<HEADER>() {
        let header = Header::decode(*header);
        assert_eq!((header.kind, header.flags), (kind::RESPONSE, 0));
        let (content, more) = more.split_at(header.length as usize);
        answers.push((header.stream, Response::decode(content).expect("response")));
        rest = more;
    }
    answers
}

/// Returns the streams and codes of all errors that the client has received.
fn codes(connection: &mut Connection, from: &OwnedFd) -> Vec<(u32, i32)> {
    answers(connection, from)
        .into_iter()
        .map(|(stream, response)| (stream, response.status.map_or(code::OK, |status| status.code)))
        .collect()
}

#[test]
fn calls_are_answered_in_any_order() {
    let (mut connection, client) = pair();
    assert_eq!(connection.receive(), Ok(vec![]));
    send(&client, &[request(1, "A", b"a"), request(3, "B", b"")].concat());
    let calls = connection.receive().unwrap();
    let one = Call {
        stream: 1,
        service: "s".into(),
        method: "A".into(),
        payload: b"a".into(),
        timeout: Some(7),
    };
    let other = Call { stream: 3, method: "B".into(), payload: vec![], ..one.clone() };
    assert_eq!(calls, [one, other]);
    assert_eq!(connection.open(), 2);
    assert!(!connection.wants_to_write());
    connection.respond(3, Err(Status::not_found("b")));
    connection.respond(1, Ok(b"r".into()));
    // A second answer to the same call, and an answer to a call that was not made.
    connection.respond(1, Ok(vec![]));
    connection.respond(5, Ok(vec![]));
    assert!(connection.wants_to_write());
    let (not_found, fine) =
        (Some(Status::not_found("b")), Response { status: None, payload: b"r".into() });
    assert_eq!(
        answers(&mut connection, &client),
        [(3, Response { status: not_found, payload: vec![] }), (1, fine)]
    );
    assert!(!connection.wants_to_write());
    assert_eq!(connection.open(), 0);
}

#[test]
fn timeouts() {
    let (mut connection, client) = pair();
    for (stream, nanoseconds, timeout) in
        [(1, 0, None), (3, -1, Some(0)), (5, i64::MAX, Some(i64::MAX as u64))]
    {
        let request = Request { timeout_nano: nanoseconds, ..Request::default() };
        send(&client, &frame(stream, kind::REQUEST, 0, &request.encode()));
        assert_eq!(connection.receive().unwrap()[0].timeout, timeout);
    }
}

#[test]
fn frames_come_in_pieces() {
    let (mut connection, client) = pair();
    let bytes = request(1, "A", &[5; 300]);
    let (last, first) = bytes.split_last().unwrap();
    for byte in first {
        send(&client, &[*byte]);
        assert_eq!(connection.receive(), Ok(vec![]));
    }
    send(&client, &[*last, 0, 0]);
    assert_eq!(connection.receive().unwrap()[0].payload, [5; 300]);
    send(&client, &request(3, "B", b"")[2..]);
    assert_eq!(connection.receive().unwrap()[0].method, "B");
}

#[test]
fn the_longest_frame_comes_through() {
    let (mut connection, client) = pair();
    let payload = vec![1; LONGEST - 30];
    let bytes = request(1, "A", &payload);
    assert!(bytes.len() <= LONGEST + HEADER);
    let mut calls = Vec::new();
    for chunk in bytes.chunks(100_000) {
        send(&client, chunk);
        while calls.is_empty() {
            let before = connection.receive().unwrap();
            if before.is_empty() && rustix::io::ioctl_fionread(connection.fd()) == Ok(0) {
                break;
            }
            calls = before;
        }
    }
    assert!(calls[0].payload == payload);
}

#[test]
fn too_long_a_frame_is_refused_and_skipped() {
    let (mut connection, client) = pair();
    let length = LONGEST + 1;
    send(&client, &Header::new(length, 1, kind::REQUEST).encode());
    assert_eq!(connection.receive(), Ok(vec![]));
    let junk = vec![0xff; length];
    for chunk in junk.chunks(BATCH) {
        send(&client, chunk);
        assert_eq!(connection.receive(), Ok(vec![]));
    }
    send(&client, &request(3, "B", b""));
    assert_eq!(connection.receive().unwrap()[0].stream, 3);
    assert_eq!(codes(&mut connection, &client), [(1, code::RESOURCE_EXHAUSTED)]);
}

#[test]
fn what_clients_do_wrong_is_answered() {
    let (mut connection, client) = pair();
    for (bytes, answer) in [
        (request(2, "even", b""), Some((2, code::INVALID_ARGUMENT))),
        (request(0, "none", b""), Some((0, code::INVALID_ARGUMENT))),
        (frame(7, kind::REQUEST, 0, &[0xff]), Some((7, code::INVALID_ARGUMENT))),
        (request(5, "smaller", b""), Some((5, code::INVALID_ARGUMENT))),
        (frame(9, kind::DATA, flag::NO_DATA, b""), Some((9, code::INVALID_ARGUMENT))),
        (frame(11, kind::REQUEST, flag::REMOTE_OPEN, b""), Some((11, code::UNIMPLEMENTED))),
        (frame(13, kind::RESPONSE, 0, b""), None),
        (frame(13, 77, 0, b"future"), None),
    ] {
        send(&client, &bytes);
        assert_eq!(connection.receive(), Ok(vec![]), "{answer:?}");
        assert_eq!(codes(&mut connection, &client), Vec::from_iter(answer));
    }
    send(&client, &frame(13, kind::REQUEST, flag::REMOTE_CLOSED, b""));
    assert_eq!(connection.receive().unwrap().len(), 1);
    // A frame for a stream that has an unanswered call. The call can still be answered.
    send(&client, &frame(13, kind::DATA, 0, b"x"));
    assert_eq!(connection.receive(), Ok(vec![]));
    connection.respond(13, Ok(vec![]));
    assert_eq!(codes(&mut connection, &client), [(13, code::INVALID_ARGUMENT), (13, code::OK)]);
}

#[test]
fn too_many_calls_are_refused() {
    let (mut connection, client) = pair();
    let (mut calls, most) = (0, u32::try_from(MOST_CALLS).unwrap());
    for number in 0..=most {
        send(&client, &frame(2 * number + 1, kind::REQUEST, 0, b""));
        calls += connection.receive().unwrap().len();
    }
    assert_eq!((calls, connection.open()), (MOST_CALLS, MOST_CALLS));
    let last = 2 * most + 1;
    assert_eq!(codes(&mut connection, &client), [(last, code::RESOURCE_EXHAUSTED)]);
}

#[test]
fn nothing_is_read_while_answers_wait() {
    let (mut connection, client) = pair();
    send(&client, &[request(1, "A", b""), request(3, "B", b"")].concat());
    assert_eq!(connection.receive().unwrap().len(), 2);
    connection.respond(1, Ok(vec![1; FULL]));
    assert!(!connection.wants_to_read());
    send(&client, &request(5, "C", b""));
    assert_eq!(connection.receive(), Ok(vec![]));
    let mut taken = 0;
    let mut buffer = vec![0; FULL];
    while connection.wants_to_write() {
        connection.flush().unwrap();
        taken += rustix::io::read(&client, &mut buffer[..]).unwrap();
    }
    assert!(taken > FULL / 2);
    assert!(connection.wants_to_read());
    assert_eq!(connection.receive().unwrap()[0].stream, 5);
}

#[test]
fn too_long_an_answer_becomes_an_error() {
    let (mut connection, client) = pair();
    send(&client, &request(1, "A", b""));
    connection.receive().unwrap();
    connection.respond(1, Ok(vec![1; LONGEST]));
    assert_eq!(codes(&mut connection, &client), [(1, code::RESOURCE_EXHAUSTED)]);
}

#[test]
fn a_client_that_leaves() {
    let (mut connection, client) = pair();
    send(&client, &request(1, "A", b""));
    drop(client);
    assert_eq!(connection.receive().unwrap().len(), 1);
    assert_eq!(connection.receive(), Err(Closed::Ended));
    connection.respond(1, Ok(vec![]));
    assert_eq!(connection.flush(), Err(Closed::Ended));
}
