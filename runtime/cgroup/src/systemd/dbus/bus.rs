//! A connection to a bus or to a service.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use sys::Context;
use sys::wait::{Deadline, ready};

use crate::systemd::dbus::message::Kind;
use crate::systemd::dbus::{Address, Call, Error, Message, Value};

/// The maximum number of signals that are queued until the caller waits for a signal.
const MAX_SIGNALS: usize = 64;
/// Maximum length of a line of the SASL authentication, in bytes.
const MAX_LINE: usize = 1024;

const BUS: &str = "org.freedesktop.DBus";

/// A connection to a bus, or directly to a service (peer-to-peer).
#[derive(Debug)]
pub struct Bus {
    socket: OwnedFd,
    /// Received bytes that are not parsed yet.
    input: Vec<u8>,
    serial: u32,
    /// Whether the peer is a message bus. A bus routes messages by destination, and delivers only the signals to which
    /// the client has subscribed.
    routed: bool,
    /// The timeout of each call and each wait.
    patience: Duration,
    /// Signals that arrived while the caller was not waiting for a signal.
    signals: Vec<Message>,
}

impl Bus {
    /// Connects to the bus at `address`. `patience` is the timeout of each call and of each wait for a signal.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn connect(address: &Address, patience: Duration) -> Result<Self, Error> {
        Self::dial(address, true, patience)
    }

    /// Connects to a service that listens at `address` itself, without a bus (peer-to-peer D-Bus).
    ///
    /// # Errors
    /// See [`Error`].
    pub fn peer(address: &Address, patience: Duration) -> Result<Self, Error> {
        Self::dial(address, false, patience)
    }

    fn dial(target: &Address, routed: bool, patience: Duration) -> Result<Self, Error> {
        let kind = SocketType::STREAM;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .context("socket", "D-Bus")?;
        // connect(2) blocks if the peer's backlog is full, and send(2) blocks if the peer does not read.
        set_socket_timeout(&socket, Timeout::Send, Some(patience))
            .context("setsockopt", "SO_SNDTIMEO")?;
        let address = match target {
            Address::Path(path) => SocketAddrUnix::new(path.as_str()),
            Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        };
        match address.and_then(|address| connect(&socket, &address)) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Err(stalled(patience)),
            Err(errno) => return Err(Error::Connect { address: target.to_string(), errno }),
        }
        Self::over(socket, routed, patience)
    }

    /// Authenticates on a connected socket. `routed` is true if the peer is a bus.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn over(socket: OwnedFd, routed: bool, patience: Duration) -> Result<Self, Error> {
        let (input, signals) = (Vec::new(), Vec::new());
        let mut bus = Self { socket, input, serial: 0, routed, patience, signals };
        bus.authenticate()?;
        if routed {
            bus.call_bus("Hello", Vec::new())?;
        }
        Ok(bus)
    }

    /// Authenticates with the mechanism EXTERNAL: the peer reads the client's uid by SO_PEERCRED. The client does not
    /// send its uid, because in a user namespace it differs from the uid that the peer sees.
    ///
    /// The client's whole part is sent at once, as by clients of sd-bus, and messages follow the peer's answer. If the
    /// last line arrived together with a message of less than 256 bytes, systemd would have read both, and would wait
    /// for more before it looks at the message.
    fn authenticate(&mut self) -> Result<(), Error> {
        let deadline = Deadline::after(self.patience);
        self.send(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
        let mut line = self.line(deadline)?;
        if line == "DATA" {
            line = self.line(deadline)?;
        }
        if line != "OK" && !line.starts_with("OK ") {
            return Err(Error::Rejected { answer: line });
        }
        Ok(())
    }

    /// Reads the next line of the authentication.
    fn line(&mut self, deadline: Deadline) -> Result<String, Error> {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_string());
            }
            if self.input.len() > MAX_LINE {
                return Err(Error::Malformed("authentication"));
            }
            self.receive(deadline)?;
        }
    }

    /// Calls a method and waits for the reply.
    ///
    /// # Errors
    /// [`Error::Answer`] if the reply is an error; for other errors see [`Error`].
    pub fn call(&mut self, call: &Call<'_>) -> Result<Message, Error> {
        let deadline = Deadline::after(self.patience);
        self.serial += 1;
        let serial = self.serial;
        self.send(&call.encode(serial, self.routed))?;
        loop {
            let message = self.next(deadline)?;
            match message.kind {
                Kind::Return(to) if to == serial => return Ok(message),
                Kind::Error(to) if to == serial => {
                    let text = message.text().unwrap_or_default().to_string();
                    return Err(Error::Answer { name: message.error_name, text });
                }
                Kind::Signal => {
                    // The queue is full: drop the oldest signal. That signal concerns a job that this client did not
                    // start.
                    if self.signals.len() == MAX_SIGNALS {
                        self.signals.remove(0);
                    }
                    self.signals.push(message);
                }
                _ => {}
            }
        }
    }

    /// Subscribes to the signals that match `rule`. On a peer-to-peer connection, does nothing, because all signals
    /// arrive there anyway.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn subscribe(&mut self, rule: &str) -> Result<(), Error> {
        if self.routed {
            self.call_bus("AddMatch", [Value::text(rule)].into())?;
        }
        Ok(())
    }

    /// Waits for a signal for which `wanted` returns `Some`, and returns the value that `wanted` returned.
    ///
    /// # Errors
    /// [`Error::Stalled`] if no such signal arrives in time; for other errors see [`Error`].
    pub fn signal<T>(&mut self, mut wanted: impl FnMut(&Message) -> Option<T>) -> Result<T, Error> {
        let deadline = Deadline::after(self.patience);
        if let Some(found) = self.signals.drain(..).find_map(|message| wanted(&message)) {
            return Ok(found);
        }
        loop {
            let message = self.next(deadline)?;
            if message.kind == Kind::Signal
                && let Some(found) = wanted(&message)
            {
                return Ok(found);
            }
        }
    }

    fn call_bus(&mut self, member: &str, arguments: Vec<Value>) -> Result<Message, Error> {
        let path = "/org/freedesktop/DBus";
        self.call(&Call { destination: BUS, path, interface: BUS, member, arguments })
    }

    /// Returns the next message.
    fn next(&mut self, deadline: Deadline) -> Result<Message, Error> {
        loop {
            if let Some(length) = Message::length(&self.input)?
                && let Some(bytes) = self.input.get(..length)
            {
                let message = Message::parse(bytes)?;
                self.input.drain(..length);
                return Ok(message);
            }
            self.receive(deadline)?;
        }
    }

    /// Receives the available bytes; if there are none, waits for some.
    fn receive(&mut self, deadline: Deadline) -> Result<(), Error> {
        let mut buffer = [0; 2048];
        loop {
            // The deadline is also checked here, because the peer may send without end.
            if deadline.left().is_none() {
                return Err(stalled(self.patience));
            }
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Error::Closed),
                Ok((count, _)) => {
                    self.input.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    return Ok(());
                }
                Err(Errno::AGAIN) => {
                    let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
                    if !ready(&mut fds, deadline)? {
                        return Err(stalled(self.patience));
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(sys::Error::new("recv", "D-Bus", errno).into()),
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(stalled(self.patience)),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::Closed),
                Err(errno) => return Err(sys::Error::new("send", "D-Bus", errno).into()),
            }
        }
        Ok(())
    }
}

fn stalled(patience: Duration) -> Error {
    Error::Stalled { waited: patience.as_millis().try_into().unwrap_or(u32::MAX) }
}

#[cfg(test)]
#[path = "bus_tests.rs"]
mod tests;
