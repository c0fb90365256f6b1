//! Between `create` and `start`: a socket in the container's directory that init listens on.
//!
//! Connecting and saying the word starts the program; the connection closes by itself when exec
//! succeeded, and carries the reason when it did not. Unlike a FIFO it needs no reopening through
//! /proc, tells a live waiter from a dead one, and gives `start` the truth about exec.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sys::Context;

use crate::Error;
use crate::channel::{self, Message, Word};

/// Connects to the socket at `path` (at most 107 bytes: unix(7)).
///
/// # Errors
/// ENOENT or ECONNREFUSED if nobody waits there.
fn dial(path: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// What is found where init waits for `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiter {
    /// Init listens.
    Waiting,
    /// A socket on which nobody listens: a program that was just started, or an init that is dying.
    Gone,
    /// No socket: started for good, or never waited.
    None,
}

/// Looks who waits for `start` at `path`. Connecting without a word changes nothing.
pub fn waiter(path: &str) -> Waiter {
    match dial(path) {
        Ok(_) => Waiter::Waiting,
        Err(Errno::NOENT) => Waiter::None,
        Err(_) => Waiter::Gone,
    }
}

/// What became of a `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The program runs.
    Runs,
    /// Nobody waits to be started.
    NobodyWaits,
}

/// Starts the program, and waits until it runs.
///
/// # Errors
/// What made exec fail.
pub fn start(path: &str) -> Result<Start, Error> {
    let socket = match dial(path) {
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(Start::NobodyWaits),
        result => result.context("connect", path)?,
    };
    channel::say(&socket, Word::Start).context("send", path)?;
    match channel::listen(&socket).context("read", path)? {
        Message::Closed => Ok(Start::Runs),
        Message::Died => Err(Error::Died("container init was killed before it started".into())),
        Message::Failed { errno, text, .. } => {
            Err(Error::Init { step: "start".into(), detail: text, errno })
        }
        _ => Err(sys::Error::new("read", path, Errno::PROTO).into()),
    }
}
