//! Between `create` and `start`: a socket in the container's directory that init listens on.
//!
//! Connecting and saying the word starts the program; the connection closes by itself when exec
//! succeeded, and carries the reason when it did not. Unlike a FIFO it needs no reopening through
//! /proc, tells a live waiter from a dead one, and gives `start` the truth about exec.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sys::Context;

use crate::Error;
use crate::error::words;
use init::channel::{self, Message, Word};

/// How long an init that can run takes at most to answer `start`, as a rule.
const PROMPT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Connects to the socket at `path` (at most 107 bytes: unix(7)).
///
/// # Errors
/// ENOENT or ECONNREFUSED if nobody waits there; EAGAIN with NONBLOCK among `flags`, if as many callers as
/// fit wait already to be looked at.
fn dial(path: &str, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | flags;
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

/// Looks who waits for `start` at `path`. Connecting without a word changes nothing. Does not wait: an init
/// that is frozen takes no calls, and those of earlier looks may be all that fit.
pub fn waiter(path: &str) -> Waiter {
    match dial(path, SocketFlags::NONBLOCK) {
        Ok(_) | Err(Errno::AGAIN) => Waiter::Waiting,
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
    /// Who waits is frozen.
    Frozen,
}

/// Starts the program, and waits until it runs. If there is no answer for a while, `is_frozen` is asked
/// whether there can be one; where not, nothing is started, then or later: init does not listen to who has
/// gone.
///
/// # Errors
/// What made exec fail; those of `is_frozen`.
pub fn start<E: From<Error>>(
    path: &str,
    is_frozen: impl Fn() -> Result<bool, E>,
) -> Result<Start, E> {
    let socket = match dial(path, SocketFlags::NONBLOCK) {
        Err(Errno::AGAIN) if is_frozen()? => return Ok(Start::Frozen),
        Err(Errno::AGAIN) => dial(path, SocketFlags::empty()),
        result => result,
    };
    let socket = match socket {
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(Start::NobodyWaits),
        result => result.context("connect", path).map_err(Error::from)?,
    };
    channel::say(&socket, Word::Start).context("send", path).map_err(Error::from)?;
    if !answers(&socket, Some(&PROMPT)) {
        if is_frozen()? {
            return Ok(Start::Frozen);
        }
        answers(&socket, None);
    }
    Ok(answer(&socket, path)?)
}

/// Whether init says something, or hangs up, in time.
fn answers(socket: &OwnedFd, time: Option<&Timespec>) -> bool {
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], time) {
            Err(Errno::INTR) => {}
            // What is wrong will be seen in reading.
            result => return result != Ok(0),
        }
    }
}

fn answer(socket: &OwnedFd, path: &str) -> Result<Start, Error> {
    match channel::listen(socket).context("read", path)? {
        Message::Closed => Ok(Start::Runs),
        Message::Died => Err(Error::Died("container init was killed before it started".into())),
        // A hook that failed: the text says how.
        Message::Failed { failure, .. } => Err(match (failure.errno, words(&failure)) {
            (Errno::CANCELED, text) => Error::Hook(text),
            (errno, detail) => Error::Init { step: "start".into(), detail, errno },
        }),
        _ => Err(sys::Error::new("read", path, Errno::PROTO).into()),
    }
}
