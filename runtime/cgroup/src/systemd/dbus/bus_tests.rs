use super::*;
use crate::systemd::dbus::fake::{self, AUTHENTICATION, Asked, SHORT, returns, within_bounds};

/// Calls a method on a bus.
fn over(socket: OwnedFd) -> Result<Message, Error> {
    Bus::over(socket, true, SHORT)?.call(&call())
}

fn call() -> Call<'static> {
    let (path, interface, member) = ("/", "a.b", "C");
    Call { destination: "a.b", path, interface, member, arguments: Vec::new() }
}

#[test]
fn a_bus_that_stalls_at_the_door_is_an_error_soon() {
    let (socket, _thread) = fake::serve("", |_| Vec::new());
    let error = within_bounds(|| over(socket)).unwrap_err();
    assert_eq!(error, Error::Stalled(200));
    let (socket, _thread) = fake::serve("OK 1\r\n", |_| Vec::new());
    let error = within_bounds(|| over(socket)).unwrap_err();
    assert_eq!(error, Error::Stalled(200));
}

#[test]
fn auth_rejection_is_reported() {
    let (socket, _thread) = fake::serve("DATA\r\nREJECTED EXTERNAL\r\n", |_| Vec::new());
    let error = over(socket).unwrap_err();
    assert_eq!(error, Error::Rejected("REJECTED EXTERNAL".into()));
    let (socket, _thread) = fake::serve("REJECTED ANONYMOUS\r\n", |_| Vec::new());
    assert_eq!(over(socket).unwrap_err(), Error::Rejected("REJECTED ANONYMOUS".into()));
    let (socket, other) = fake::pair();
    drop(other);
    assert_eq!(over(socket).unwrap_err(), Error::Closed);
}

/// systemd's own socket, on a host without a bus: a short first message that arrived together with the end of the
/// authentication was never answered. So the first read must get the whole authentication and nothing else.
#[test]
fn a_service_without_a_bus_is_not_greeted() {
    let (socket, peer) = fake::pair();
    let mut bus = Bus::over(socket, false, SHORT).unwrap();
    bus.subscribe("type='signal'");
    bus.queue(&call());
    assert_eq!(bus.send_queued(), Err(Error::Stalled(200)));
    assert_eq!(fake::arrived(&peer), AUTHENTICATION);
    fake::say(&peer, b"OK 1\r\n");
    bus.send_queued().unwrap();
    assert_eq!(Message::parse(&fake::arrived(&peer)).unwrap().member, "C");
}

/// A bus reads calls behind the authentication, so a start need not wait for its answer.
#[test]
fn calls_to_a_bus_do_not_wait_for_its_answer() {
    let (socket, peer) = fake::pair();
    let socket = Bus::over(socket, true, SHORT).unwrap().into_socket();
    let mut bus = Bus::of_authenticated(socket, true, SHORT);
    let serial = bus.queue(&call());
    bus.send_queued().unwrap();
    let sent = fake::arrived(&peer);
    let hello = sent.strip_prefix(AUTHENTICATION).unwrap();
    let length = Message::length(hello).unwrap().unwrap();
    assert_eq!(Message::parse(&hello[..length]).unwrap().member, "Hello");
    assert_eq!(Message::parse(&hello[length..]).unwrap().member, "C");
    fake::say(&peer, b"DATA\r\nOK");
    assert_eq!(bus.has_signal(|_| true), Ok(false));
    let asked = Asked { member: String::new(), serial, text: String::new() };
    fake::say(&peer, &[b" 1\r\n", &returns(&asked, &[])[..]].concat());
    bus.reply(serial).unwrap();
}
