use super::*;
use crate::systemd::dbus::fake::{self, SHORT, returns, within_bounds};

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
    assert_eq!(error, Error::Stalled { waited: 200 });
    let (socket, _thread) = fake::serve("OK 1\r\n", |_| Vec::new());
    let error = within_bounds(|| over(socket)).unwrap_err();
    assert_eq!(error, Error::Stalled { waited: 200 });
}

#[test]
fn auth_rejection_is_reported() {
    let (socket, _thread) = fake::serve("DATA\r\nREJECTED EXTERNAL\r\n", |_| Vec::new());
    let error = over(socket).unwrap_err();
    assert_eq!(error, Error::Rejected { answer: "REJECTED EXTERNAL".into() });
    let (socket, _thread) = fake::serve("REJECTED ANONYMOUS\r\n", |_| Vec::new());
    assert_eq!(over(socket).unwrap_err(), Error::Rejected { answer: "REJECTED ANONYMOUS".into() });
    let (socket, other) = fake::pair();
    drop(other);
    assert_eq!(over(socket).unwrap_err(), Error::Closed);
}

/// systemd's own socket, on a host without a bus: a short first message that arrived together with the end of the
/// authentication was never answered. So the first read must get the whole authentication and nothing else, which the
/// fake peer asserts.
#[test]
fn a_service_without_a_bus_is_not_greeted() {
    let (socket, thread) = fake::serve("OK 1\r\n", |asked| returns(asked, &[]));
    let mut bus = Bus::over(socket, false, SHORT).unwrap();
    bus.subscribe("type='signal'");
    bus.call(&call()).unwrap();
    drop(bus);
    assert_eq!(thread.join().unwrap(), ["C"]);
}
