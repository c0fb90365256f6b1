//! Tests of clients connected to server connections.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::ttrpc::frame::Header;
use crate::ttrpc::server::Connection;

fn socket() -> (Client, OwnedFd) {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("socketpair");
    (Client::new(ours), theirs)
}

#[test]
fn calls_and_answers() {
    let (mut client, server) = socket();
    let mut server = Connection::new(server);
    let one = client.call("s", "A", b"a".into());
    let other = client.call_within(5, "s", "B", vec![]);
    assert_eq!((one, other, client.open()), (1, 3, 2));
    assert!(client.wants_to_write() && client.queued() > 0);
    client.flush().unwrap();
    assert!(!client.wants_to_write());
    assert_eq!(client.receive(), Ok(vec![]));
    let calls = server.receive().unwrap();
    assert_eq!(calls[0].payload, b"a");
    assert_eq!((calls[0].timeout, calls[1].timeout), (None, Some(5)));
    server.respond(3, Err(Status::unavailable("later")));
    server.respond(1, Ok(b"r".into()));
    server.flush().unwrap();
    let answers = vec![(3, Err(Status::unavailable("later"))), (1, Ok(b"r".into()))];
    assert_eq!(client.receive(), Ok(answers));
    assert_eq!(client.open(), 0);
}

#[test]
fn what_nobody_waits_for_is_dropped() {
    let (mut client, server) = socket();
    let mut server = Connection::new(server);
    let (one, other) = (client.call("s", "A", vec![]), client.call("s", "B", vec![]));
    client.flush().unwrap();
    client.forget(one);
    server.receive().unwrap();
    server.respond(one, Ok(vec![]));
    server.respond(other, Ok(vec![]));
    server.flush().unwrap();
    assert_eq!(client.receive(), Ok(vec![(other, Ok(vec![]))]));
}

#[test]
fn what_servers_do_wrong_is_an_error_of_the_call() {
    let (mut client, server) = socket();
    for (kind, content, length) in
        [(kind::RESPONSE, &[0xff][..], 1), (kind::DATA, b"", 0), (kind::RESPONSE, b"", LONGEST + 1)]
    {
        let stream = client.call("s", "A", vec![]);
        let header = Header::new(length, stream, kind);
        rustix::io::write(&server, &[&header.encode()[..], content].concat()).unwrap();
        let answers = client.receive().unwrap();
        assert!(matches!(answers[..], [(of, Err(_))] if of == stream), "{answers:?}");
    }
}

#[test]
fn a_status_that_says_ok_is_none() {
    let (mut client, server) = socket();
    let stream = client.call("s", "A", vec![]);
    let response = Response { status: Some(Status::default()), payload: b"r".into() }.encode();
    let header = Header::new(response.len(), stream, kind::RESPONSE);
    rustix::io::write(&server, &[&header.encode()[..], &response].concat()).unwrap();
    assert_eq!(client.receive(), Ok(vec![(stream, Ok(b"r".into()))]));
}

#[test]
fn too_long_a_call_is_refused() {
    let (mut client, _server) = socket();
    let stream = client.call("s", "A", vec![0; LONGEST]);
    assert!(!client.wants_to_write());
    assert_eq!(client.receive(), Ok(vec![(stream, Err(too_long(LONGEST + 11)))]));
}

#[test]
fn a_server_that_leaves() {
    let (mut client, server) = socket();
    client.call("s", "A", vec![]);
    drop(server);
    assert_eq!(client.flush(), Err(Closed::Ended));
    assert_eq!(client.receive(), Err(Closed::Ended));
}

#[test]
fn streams_are_used_up() {
    let (mut client, _server) = socket();
    client.next = Some(u32::MAX - 2);
    assert_eq!(client.call("s", "A", vec![]), u32::MAX - 2);
    client.flush().unwrap();
    assert_eq!(client.call("s", "A", vec![]), u32::MAX);
    assert_eq!(client.flush(), Err(Closed::Exhausted));
    assert_eq!(client.call("s", "A", vec![]), 0);
}
