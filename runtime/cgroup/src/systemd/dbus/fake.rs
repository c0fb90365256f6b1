//! A fake D-Bus peer for tests: a thread at the other end of a socket pair.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::systemd::dbus::{Message, Value, message};

/// The time that tests wait for a peer's answer.
pub const SHORT: Duration = Duration::from_millis(200);

/// The client's whole part of the authentication.
pub const AUTHENTICATION: &[u8] = b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";

/// Asserts that `act` does not wait much longer than [`SHORT`].
pub fn within_bounds<T>(act: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let result = act();
    assert!(since.elapsed() < SHORT * 20, "took {:?}", since.elapsed());
    result
}

/// A call that the fake peer has received.
#[derive(Debug)]
pub struct Asked {
    /// The name of the method.
    pub member: String,
    /// The serial of the call.
    pub serial: u32,
    /// The first argument if it is a string; otherwise empty.
    pub text: String,
}

/// Encodes a message whose other fields are texts.
fn encode(kind: u8, reply_to: u32, fields: &[(u8, &str)], arguments: &[Value]) -> Vec<u8> {
    let texts = fields.iter().map(|(code, text)| (*code, Value::text(text)));
    let fields = [(5, Value::Uint32(reply_to))].into_iter().chain(texts).collect();
    message::encode(kind, 1, fields, arguments)
}

/// Encodes the reply to a successful method call.
pub fn returns(asked: &Asked, arguments: &[Value]) -> Vec<u8> {
    encode(2, asked.serial, &[], arguments)
}

/// Encodes an error reply named `name`.
pub fn fails(asked: &Asked, name: &str, text: &str) -> Vec<u8> {
    encode(3, asked.serial, &[(4, name)], &[Value::text(text)])
}

/// Encodes a signal.
pub fn signals(interface: &str, member: &str, arguments: &[Value]) -> Vec<u8> {
    encode(4, 0, &[(2, interface), (3, member)], arguments)
}

/// Returns a socket and a thread. The thread is the peer of the socket: it answers the authentication with `line`, and
/// each call with the result of `answer`. After the socket is closed, the thread returns the received calls.
pub fn serve(
    line: &'static str,
    mut answer: impl FnMut(&Asked) -> Vec<u8> + Send + 'static,
) -> (OwnedFd, JoinHandle<Vec<String>>) {
    let (ours, theirs) = pair();
    let thread = std::thread::spawn(move || {
        let mut calls = Vec::new();
        let mut input = Vec::new();
        let mut chunk = [0; 4096];
        let mut begun = false;
        loop {
            match recv(&theirs, &mut chunk[..], RecvFlags::empty()) {
                Ok((0, _)) | Err(_) => return calls,
                Ok((count, _)) => input.extend_from_slice(&chunk[..count]),
            }
            if !begun && input.len() >= AUTHENTICATION.len() {
                assert!(input.starts_with(AUTHENTICATION));
                input.drain(..AUTHENTICATION.len());
                say(&theirs, line.as_bytes());
                begun = true;
            }
            while begun
                && let Some(length) = Message::length(&input).unwrap()
                && input.len() >= length
            {
                let bytes: Vec<u8> = input.drain(..length).collect();
                let message = Message::parse(&bytes).unwrap();
                let serial = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
                let text = message.text().unwrap_or_default().to_string();
                calls.push(message.member.clone());
                let answers = answer(&Asked { member: message.member, serial, text });
                say(&theirs, &answers);
            }
        }
    });
    (ours, thread)
}

/// Creates a pair of connected sockets.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::STREAM;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// Returns what has arrived at the socket.
pub fn arrived(socket: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let (count, _) = recv(socket, &mut bytes[..], RecvFlags::empty()).unwrap();
    bytes.truncate(count);
    bytes
}

/// Sends all bytes; stops if the peer closes the connection.
pub fn say(socket: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => return,
        }
    }
}
