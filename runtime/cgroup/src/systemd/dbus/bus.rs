//! A connection to a bus or to a service.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
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
    /// Calls that are not sent yet.
    output: Vec<u8>,
    /// The serial number of the last call.
    serial: u32,
    /// Whether the peer has accepted the authentication.
    accepted: bool,
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

    /// Begins the authentication on a connected socket, with the mechanism EXTERNAL: the peer reads the client's uid by
    /// SO_PEERCRED. The client does not send its uid, because in a user namespace it differs from the uid that the peer
    /// sees. `routed` is true if the peer is a bus.
    ///
    /// The client's whole part is sent at once, as by clients of sd-bus. Calls to a bus follow before its answer. systemd
    /// is sent none before: if the last line arrived together with a message of less than 256 bytes, systemd would have
    /// read both, and would wait for more before it looks at the message.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn over(socket: OwnedFd, routed: bool, patience: Duration) -> Result<Self, Error> {
        let bus = Self::of_authenticated(socket, routed, patience);
        bus.send(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
        Ok(bus)
    }

    /// Continues on the socket of a connection that has sent nothing but the authentication, which was not answered yet.
    pub fn of_authenticated(socket: OwnedFd, routed: bool, patience: Duration) -> Self {
        let (input, output, signals) = (Vec::new(), Vec::new(), Vec::new());
        let (serial, accepted) = (0, false);
        Self { socket, input, output, serial, accepted, routed, patience, signals }
    }

    /// Returns the socket, for [`Bus::of_authenticated`].
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Returns whether the peer is a bus, which delivers no signals but those that the client asks for.
    pub fn is_routed(&self) -> bool {
        self.routed
    }

    /// Returns the socket, which is readable when a message arrives.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Parses what has been received of the peer's answer to the authentication. Returns whether the peer has accepted it.
    fn is_accepted(&mut self) -> Result<bool, Error> {
        while !self.accepted {
            let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") else {
                return match self.input.len() > MAX_LINE {
                    true => Err(Error::Malformed("authentication")),
                    false => Ok(false),
                };
            };
            let line: Vec<u8> = self.input.drain(..end + 2).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_string();
            self.accepted = line == "OK" || line.starts_with("OK ");
            if !self.accepted && line != "DATA" {
                return Err(Error::Rejected(line));
            }
        }
        Ok(true)
    }

    /// Calls a method and waits for the reply.
    ///
    /// # Errors
    /// [`Error::Answer`] if the reply is an error; for other errors see [`Error`].
    pub fn call(&mut self, call: &Call<'_>) -> Result<Message, Error> {
        let serial = self.queue(call);
        self.send_queued()?;
        self.reply(serial)
    }

    /// Queues a method call; returns its serial number, for [`Bus::reply`].
    pub fn queue(&mut self, call: &Call<'_>) -> u32 {
        if self.serial == 0 && self.routed {
            self.serial = 1;
            self.output = of_bus("Hello", Vec::new()).encode(1, true);
        }
        self.serial += 1;
        self.output.extend_from_slice(&call.encode(self.serial, self.routed));
        self.serial
    }

    /// Queues a call by which the bus will send the signals that match `rule`. A bus handles the calls of a connection in
    /// their order, so signals that result from later calls arrive. On a peer-to-peer connection, does nothing, because
    /// all signals arrive there anyway.
    pub fn subscribe(&mut self, rule: &str) {
        if self.routed {
            self.queue(&of_bus("AddMatch", [Value::text(rule)].into()));
        }
    }

    /// Sends the queued calls.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send_queued(&mut self) -> Result<(), Error> {
        let deadline = Deadline::after(self.patience);
        while !self.routed && !self.is_accepted()? {
            self.receive(deadline)?;
        }
        let calls = core::mem::take(&mut self.output);
        self.send(&calls)
    }

    /// Waits for the reply to the call with this serial number.
    ///
    /// # Errors
    /// [`Error::Answer`] if the reply to this or to an earlier call is an error; for other errors see [`Error`].
    pub fn reply(&mut self, serial: u32) -> Result<Message, Error> {
        let deadline = Deadline::after(self.patience);
        loop {
            let message = self.next(deadline)?;
            match message.kind {
                Kind::Return(to) if to == serial => return Ok(message),
                Kind::Error(to) if to <= serial => {
                    let text = message.text().unwrap_or_default().to_string();
                    return Err(Error::Answer { name: message.error_name, text });
                }
                _ => self.keep_signal(message),
            }
        }
    }

    /// Waits for a signal for which `wanted` returns `Some`, and returns the value that `wanted` returned; `None` if no such
    /// signal arrives within `patience`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn signal<T>(
        &mut self,
        patience: Duration,
        mut wanted: impl FnMut(&Message) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let deadline = Deadline::after(patience);
        if let Some(found) = self.signals.drain(..).find_map(|message| wanted(&message)) {
            return Ok(Some(found));
        }
        loop {
            match self.next(deadline) {
                Ok(message) if message.kind == Kind::Signal => {
                    if let Some(found) = wanted(&message) {
                        return Ok(Some(found));
                    }
                }
                Ok(_) => {}
                Err(Error::Stalled { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a service owns `name`, if the peer is a bus.
    ///
    /// # Errors
    /// [`Error::Stalled`] if no service does in time; for other errors see [`Error`].
    pub fn await_owner(&mut self, name: &str) -> Result<(), Error> {
        const CHANGED: &str = "NameOwnerChanged";
        if !self.routed {
            return Ok(());
        }
        self.subscribe(&format!("type='signal',sender='{BUS}',member='{CHANGED}',arg0='{name}'"));
        let reply = self.call(&of_bus("NameHasOwner", [Value::text(name)].into()))?;
        if reply.body().u32() == Some(1) {
            return Ok(());
        }
        let new_owner = |signal: &Message| {
            let mut body = signal.body();
            let is_of_name = signal.member == CHANGED && body.string()? == name;
            body.string()?;
            (is_of_name && !body.string()?.is_empty()).then_some(())
        };
        self.signal(self.patience, new_owner)?.ok_or_else(|| stalled(self.patience))
    }

    /// Returns whether a signal that `wanted` accepts is among what has been received.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn has_signal(&mut self, wanted: impl Fn(&Message) -> bool) -> Result<bool, Error> {
        while let Some(message) = self.received()? {
            self.keep_signal(message);
        }
        Ok(self.signals.iter().any(wanted))
    }

    fn keep_signal(&mut self, message: Message) {
        if message.kind != Kind::Signal {
            return;
        }
        // The queue is full: drop the oldest signal. That signal concerns a job that this client did not start.
        if self.signals.len() == MAX_SIGNALS {
            self.signals.remove(0);
        }
        self.signals.push(message);
    }

    /// Returns the next message of those that have been received.
    fn received(&mut self) -> Result<Option<Message>, Error> {
        if !self.is_accepted()? {
            return Ok(None);
        }
        let Some(length) = Message::length(&self.input)? else { return Ok(None) };
        let Some(bytes) = self.input.get(..length) else { return Ok(None) };
        let message = Message::parse(bytes)?;
        self.input.drain(..length);
        Ok(Some(message))
    }

    /// Returns the next message.
    fn next(&mut self, deadline: Deadline) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.received()? {
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

    /// Returns the error of a peer that does not answer in time.
    pub fn stalled(&self) -> Error {
        stalled(self.patience)
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

/// Returns a call to the bus itself.
fn of_bus(member: &str, arguments: Vec<Value>) -> Call<'_> {
    Call { destination: BUS, path: "/org/freedesktop/DBus", interface: BUS, member, arguments }
}

fn stalled(patience: Duration) -> Error {
    Error::Stalled(patience.as_millis().try_into().unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "bus_tests.rs"]
mod tests;
