//! The socket in the container's directory on which init listens between `create` and `start`.
//!
//! A connection with a start message starts the program. The connection closes by itself if exec succeeds, and carries
//! the error if exec fails. Unlike a FIFO, the socket need not be reopened through /proc. It also shows whether the
//! waiting init is still alive, and gives `start` the result of exec.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sys::Context;

use crate::Error;
use crate::error::words;
use crate::parent::not_executed;
use init::channel::{self, Message, Word};

/// The usual maximum time for a runnable init to answer `start`. An init that takes longer may be frozen.
pub const PROMPT: Duration = Duration::from_millis(100);

/// Connects to the socket at `path` (at most 107 bytes: unix(7)).
///
/// # Errors
/// ENOENT or ECONNREFUSED if no process listens there; EAGAIN with NONBLOCK among `flags` if the backlog is full.
fn dial(path: &str, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | flags;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The state of the socket on which init waits for `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiter {
    /// Init listens.
    Waiting,
    /// The socket has no listener: the program has just been started, or init is exiting.
    Gone,
    /// There is no socket: the program has been started, or init never waited for `start`.
    None,
}

/// Checks whether init waits for `start` at `path`. Connects without sending a message, which does not affect init.
/// Does not block, even though a frozen init accepts no connections and the connections of earlier checks may fill the
/// backlog.
pub fn waiter(path: &str) -> Waiter {
    match dial(path, SocketFlags::NONBLOCK) {
        Ok(_) | Err(Errno::AGAIN) => Waiter::Waiting,
        Err(Errno::NOENT) => Waiter::None,
        Err(_) => Waiter::Gone,
    }
}

/// The result of `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The program is running.
    Runs,
    /// No init waits to be started.
    NobodyWaits,
    /// The waiting init is frozen.
    Frozen,
}

/// Starts the program, and waits until it runs. If init does not answer for a while, calls `is_frozen`. If the
/// container is frozen, the program is not started. A thaw does not start it either, because init ignores connections
/// that have been closed.
///
/// # Errors
/// The error of exec; those of `is_frozen`.
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
    let prompt = Timespec { tv_sec: 0, tv_nsec: PROMPT.subsec_nanos().into() };
    let mut withdrawal = Withdrawal::None;
    if !answers(&socket, Some(&prompt)) {
        if is_frozen()? {
            withdrawal = withdraw(&socket);
        }
        if withdrawal == Withdrawal::Done {
            return Ok(Start::Frozen);
        }
        answers(&socket, None);
    }
    Ok(finish(&socket, path, withdrawal)?)
}

/// Connects to the init that listens at `path`, without blocking. [`begin`] then starts the program.
///
/// # Errors
/// Those of connect(2): ENOENT or ECONNREFUSED if no init waits, EAGAIN if the backlog is full.
pub fn reach(path: &str) -> Result<OwnedFd, Errno> {
    dial(path, SocketFlags::NONBLOCK)
}

/// Sends the start message over the socket that [`reach`] returned. The socket becomes readable when the program runs
/// or has failed to start; [`finish`] then returns the result. If the socket is closed before a frozen init has read
/// the message, the program is not started.
///
/// # Errors
/// Those of send(2).
pub fn begin(socket: &OwnedFd) -> Result<(), Errno> {
    channel::say(socket, Word::Start)
}

/// The result of [`withdraw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// Init has not read the message. When init reads it, init will ignore it.
    Done,
    /// The message was not taken back, or init had read it already: the program starts, or init reports a failure.
    None,
    /// Init read the message during the withdrawal, and may have started the program or ignored the message. The
    /// connection closes in both cases. If init still waits for `start` afterwards, the program was not started.
    Unsure,
}

/// Takes back the message of [`begin`] if init has not read it yet.
pub fn withdraw(socket: &OwnedFd) -> Withdrawal {
    if !sys::net::has_unread(socket) {
        return Withdrawal::None;
    }
    // An init that reads the message after this call finds the connection closed (`channel::is_open`).
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
    if sys::net::has_unread(socket) { Withdrawal::Done } else { Withdrawal::Unsure }
}

/// Waits until init sends a message or closes the connection. Returns false if neither happens within `time`.
fn answers(socket: &OwnedFd, time: Option<&Timespec>) -> bool {
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], time) {
            Err(Errno::INTR) => {}
            // The following read reports the error.
            result => return result != Ok(0),
        }
    }
}

/// Reads the result of a start from its socket. `path` is the path of init's socket, and `withdrawal` is the result of
/// [`withdraw`], if the message was to be taken back.
///
/// # Errors
/// The error of exec, or of a startContainer hook; EAGAIN if there is no result yet.
pub fn finish(socket: &OwnedFd, path: &str, withdrawal: Withdrawal) -> Result<Start, Error> {
    match channel::listen(socket).context("read", path)? {
        // Init has read the message, but may have ignored it because of the withdrawal.
        Message::Closed if withdrawal == Withdrawal::Unsure && waiter(path) == Waiter::Waiting => {
            Ok(Start::Frozen)
        }
        Message::Closed => Ok(Start::Runs),
        Message::Died => Err(Error::Died("container init was killed before it started".into())),
        // A hook failed; the text describes the failure.
        Message::Failed { failure, .. } => Err(match (failure.errno, words(&failure)) {
            (Errno::CANCELED, text) => Error::Hook(text),
            (errno, detail) if detail.starts_with("exec ") => not_executed(&detail, errno),
            (errno, detail) => Error::Init { step: "start".into(), detail, errno },
        }),
        _ => Err(sys::Error::new("read", path, Errno::PROTO).into()),
    }
}
