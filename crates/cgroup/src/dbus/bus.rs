//! The connection.

use alloc::format;
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

use super::fault::Fault;
use super::message::{Call, Kind, Message};
use super::value::Value;
use crate::Error;
use crate::wait::{self, Deadline};

/// Where the system bus listens, unless DBUS_SYSTEM_BUS_ADDRESS says otherwise.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";
/// Where systemd itself listens, for root: D-Bus without a bus.
const PRIVATE: &str = "/run/systemd/private";
/// Messages that are kept for who asks for them later.
const MAX_SIGNALS: usize = 64;
/// Bytes of one line of the authentication (SASL).
const MAX_LINE: usize = 1024;

const BUS: &str = "org.freedesktop.DBus";

/// A connection to a bus, or to systemd without one.
#[derive(Debug)]
pub(crate) struct Bus {
    socket: OwnedFd,
    /// What was received and is not parsed yet.
    input: Vec<u8>,
    serial: u32,
    /// Whether a bus is in between, which routes by destination and sends only signals asked for.
    routed: bool,
    /// How long each call and each wait may take.
    patience: Duration,
    /// Signals that came before somebody asked for them.
    signals: Vec<Message>,
}

impl Bus {
    /// Connects to the bus at `address`, as DBUS_SYSTEM_BUS_ADDRESS and DBUS_SESSION_BUS_ADDRESS have it.
    pub fn connect(address: &str, patience: Duration) -> Result<Self, Fault> {
        Self::dial(&parse_address(address)?, true, patience)
    }

    /// Connects to the system bus, else, for root, to systemd.
    pub fn system(patience: Duration) -> Result<Self, Fault> {
        match Self::dial(&Socket::Path(SYSTEM_BUS.to_string()), true, patience) {
            Err(fault) if fault.is_nobody() && rustix::process::geteuid().is_root() => {
                Self::dial(&Socket::Path(PRIVATE.to_string()), false, patience)
            }
            result => result,
        }
    }

    fn dial(target: &Socket, routed: bool, patience: Duration) -> Result<Self, Fault> {
        let kind = SocketType::STREAM;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .context("socket", "D-Bus")?;
        // connect(2) waits, where the other side has a long queue, and send(2) where it does not read.
        set_socket_timeout(&socket, Timeout::Send, Some(patience))
            .context("setsockopt", "SO_SNDTIMEO")?;
        let address = match target {
            Socket::Path(path) => SocketAddrUnix::new(path.as_str()),
            Socket::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        };
        match address.and_then(|address| connect(&socket, &address)) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Err(stalled(patience)),
            Err(errno) => return Err(Fault::Connect { address: target.to_string(), errno }),
        }
        Self::over(socket, routed, patience)
    }

    /// Introduces itself on a connected socket.
    pub fn over(socket: OwnedFd, routed: bool, patience: Duration) -> Result<Self, Fault> {
        let (input, signals) = (Vec::new(), Vec::new());
        let mut bus = Self { socket, input, serial: 0, routed, patience, signals };
        bus.authenticate()?;
        if routed {
            bus.call_bus("Hello", Vec::new())?;
        }
        Ok(bus)
    }

    /// EXTERNAL: the kernel tells the other side who we are. No uid is named, for in a user namespace it
    /// is another one than the other side knows us by.
    fn authenticate(&mut self) -> Result<(), Fault> {
        let deadline = Deadline::after(self.patience);
        self.send(b"\0AUTH EXTERNAL\r\nDATA\r\n")?;
        let mut line = self.line(deadline)?;
        if line == "DATA" {
            line = self.line(deadline)?;
        }
        if line != "OK" && !line.starts_with("OK ") {
            return Err(Fault::Rejected { answer: line });
        }
        self.send(b"BEGIN\r\n")
    }

    /// The next line of the authentication.
    fn line(&mut self, deadline: Deadline) -> Result<String, Fault> {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_string());
            }
            if self.input.len() > MAX_LINE {
                return Err(Fault::Malformed("authentication"));
            }
            self.receive(deadline)?;
        }
    }

    /// Calls a method and waits for its answer.
    pub fn call(&mut self, call: &Call<'_>) -> Result<Message, Fault> {
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
                    return Err(Fault::Answer { name: message.error_name, text });
                }
                Kind::Signal => {
                    // The oldest are of jobs that nobody here began.
                    if self.signals.len() == MAX_SIGNALS {
                        self.signals.remove(0);
                    }
                    self.signals.push(message);
                }
                _ => {}
            }
        }
    }

    /// Asks the bus for the signals that `rule` describes. Without a bus they come anyway.
    pub fn subscribe(&mut self, rule: &str) -> Result<(), Fault> {
        if self.routed {
            self.call_bus("AddMatch", [Value::text(rule)].into())?;
        }
        Ok(())
    }

    /// Waits for the signal that `wanted` makes something of.
    pub fn signal<T>(&mut self, mut wanted: impl FnMut(&Message) -> Option<T>) -> Result<T, Fault> {
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

    fn call_bus(&mut self, member: &str, arguments: Vec<Value>) -> Result<Message, Fault> {
        let path = "/org/freedesktop/DBus";
        self.call(&Call { destination: BUS, path, interface: BUS, member, arguments })
    }

    /// The next message.
    fn next(&mut self, deadline: Deadline) -> Result<Message, Fault> {
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

    /// Receives what there is, and waits for it if need be.
    fn receive(&mut self, deadline: Deadline) -> Result<(), Fault> {
        let mut buffer = [0; 2048];
        loop {
            // Also where the other side never stops talking.
            if deadline.left().is_none() {
                return Err(stalled(self.patience));
            }
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Fault::Closed),
                Ok((count, _)) => {
                    self.input.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    return Ok(());
                }
                Err(Errno::AGAIN) => {
                    let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
                    match wait::ready(&mut fds, deadline) {
                        Ok(true) => {}
                        Ok(false) => return Err(stalled(self.patience)),
                        Err(Error::System(error)) => return Err(error.into()),
                        Err(_) => return Err(Fault::Closed),
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(sys::Error::new("recv", "D-Bus", errno).into()),
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(stalled(self.patience)),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Fault::Closed),
                Err(errno) => return Err(sys::Error::new("send", "D-Bus", errno).into()),
            }
        }
        Ok(())
    }
}

fn stalled(patience: Duration) -> Fault {
    Fault::Stalled { waited: patience.as_millis().try_into().unwrap_or(u32::MAX) }
}

/// Where to connect.
#[derive(Debug, PartialEq, Eq)]
enum Socket {
    Path(String),
    Abstract(String),
}

impl core::fmt::Display for Socket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

/// Reads an address, for a fuzz target.
#[cfg(feature = "fuzz")]
pub(crate) fn check_address(address: &str) {
    let _ = parse_address(address);
}

/// The address of the bus whose socket is at `path`.
pub(crate) fn address_of(path: &str) -> String {
    let mut address = String::from("unix:path=");
    for byte in path.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'/' | b'.' => {
                address.push(byte.into());
            }
            _ => address.push_str(&format!("%{byte:02x}")),
        }
    }
    address
}

/// The first socket of a list such as `unix:path=/run/bus,guid=…;unix:abstract=name`.
fn parse_address(address: &str) -> Result<Socket, Fault> {
    let unix = address.split(';').filter_map(|one| one.strip_prefix("unix:"));
    let mut pairs = unix.flat_map(|one| one.split(',')).filter_map(|pair| pair.split_once('='));
    pairs
        .find_map(|(key, value)| match key {
            "path" => unescape(value).map(Socket::Path),
            "abstract" => unescape(value).map(Socket::Abstract),
            _ => None,
        })
        .ok_or_else(|| Fault::Address { address: address.to_string() })
}

/// A value of an address, where bytes may stand as `%` and two hexadecimal digits.
fn unescape(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let byte = match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                // No sign, as from_str_radix would have it.
                let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
                let digits = core::str::from_utf8(digits).ok().filter(|_| is_hex)?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => *byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = |address| parse_address(address).ok();
        let path = |path: &str| Some(Socket::Path(path.into()));
        assert_eq!(parsed("unix:path=/run/bus,guid=7"), path("/run/bus"));
        assert_eq!(parsed("unix:guid=7,path=/b"), path("/b"));
        assert_eq!(parsed("tcp:host=h;unix:abstract=x"), Some(Socket::Abstract("x".into())));
        assert_eq!(parsed("tcp:host=h"), None);
        assert_eq!(parsed("unix:path=/a%20b"), path("/a b"));
        assert_eq!(parsed("nonsense"), None);
        for bad in
            ["unix:path=/a%", "unix:path=/a%2", "unix:path=%+1", "unix:path=%ff", "unix:path=%2é"]
        {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_of_paths_are_read_as_those() {
        assert_eq!(address_of("/run/user/1000/bus"), "unix:path=/run/user/1000/bus");
        for path in ["/a b,c;d=e%f", "/ä", "/run/bus"] {
            assert_eq!(parse_address(&address_of(path)), Ok(Socket::Path(path.into())));
        }
    }
}
