//! Terminals of the foreground: a socket pair for init to send the master through, and raw mode for
//! ours meanwhile.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use sys::Context;

use crate::{Error, Trace};

/// How a process's terminal leaves the container.
#[derive(Debug)]
pub(crate) enum Console<'a> {
    /// There is none.
    None,
    /// Sent to a socket of the caller's, to which an attempt before this one may have connected.
    Socket(&'a str, Option<OwnedFd>),
    /// Sent to ourselves: the end for init, and ours until it is taken.
    Own(OwnedFd, Option<OwnedFd>),
}

/// Who is to receive a terminal, as the caller says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receiver<'a> {
    /// The path of a socket.
    pub socket: Option<&'a str>,
    /// A connected socket.
    pub given: Option<BorrowedFd<'a>>,
}

impl<'a> Console<'a> {
    /// Decides by runc's rules: a detached command hands its terminal to a console socket, one in the
    /// foreground keeps it.
    ///
    /// # Errors
    /// In runc's words if socket and terminal do not go together.
    pub fn prepare(
        terminal: bool,
        receiver: Receiver<'a>,
        detach: bool,
        connected: Option<OwnedFd>,
        trace: &Trace,
    ) -> Result<Self, Error> {
        trace.point("prepare", "console")?;
        if let (true, Some(given)) = (terminal, receiver.given) {
            let theirs = rustix::io::fcntl_dupfd_cloexec(given, 3).context("dup", "console")?;
            return Ok(Self::Own(theirs, None));
        }
        match (terminal, detach, receiver.socket) {
            (true, true, Some(socket)) => Ok(Self::Socket(socket, connected)),
            (true, true, None) => Err(Error::NoConsoleSocket),
            (_, _, Some(_)) => Err(Error::UnwantedConsoleSocket),
            (true, false, None) => {
                own_terminal()?;
                let (theirs, ours) =
                    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                        .context("socketpair", "console")?;
                Ok(Self::Own(theirs, Some(ours)))
            }
            (false, _, None) => Ok(Self::None),
        }
    }

    /// What the plan is told.
    pub fn source(&self) -> Option<plan::Console<'a>> {
        match self {
            Self::None => None,
            Self::Socket(path, _) => Some(plan::Console::Socket(path)),
            Self::Own(..) => Some(plan::Console::Given),
        }
    }

    /// Our end of [`Console::Own`].
    pub fn take_receiver(&mut self) -> Option<OwnedFd> {
        match self {
            Self::Own(_, ours) => ours.take(),
            _ => None,
        }
    }

    /// Init's end of [`Console::Own`], or the connection that there is already.
    pub fn into_sender(self) -> Option<OwnedFd> {
        match self {
            Self::Own(theirs, _) => Some(theirs),
            Self::Socket(_, connected) => connected,
            Self::None => None,
        }
    }
}

/// The container's terminal in our hands, with ours in raw mode until this is dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
    /// The terminal of the command; `None` if it has none any more.
    own: Option<OwnedFd>,
    /// What that was before raw mode.
    saved: Option<Termios>,
}

impl Terminal {
    /// Receives the master that init sent, if there is a socket for one.
    ///
    /// # Errors
    /// If init sent none.
    pub fn receive(socket: Option<OwnedFd>, trace: &Trace) -> Result<Option<Self>, Error> {
        let Some(socket) = socket else { return Ok(None) };
        trace.point("receive", "console")?;
        let mut name = [0u8; 64];
        let (_, master) = sys::fdpass::receive(&socket, &mut name).context("recvmsg", "console")?;
        let master = master.ok_or(Errno::PROTO).context("recvmsg", "console")?;
        rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)
            .context("fcntl", "console")?;
        let own = own_terminal().ok();
        let saved = own.as_ref().and_then(make_raw);
        let terminal = Self { master, own, saved };
        terminal.copy_size();
        Ok(Some(terminal))
    }

    /// The container's terminal; non-blocking.
    pub fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// Gives the container's terminal the size of ours.
    pub fn copy_size(&self) {
        if let Some(Ok(size)) = self.own.as_ref().map(tcgetwinsize) {
            let _ = tcsetwinsize(&self.master, size);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let (Some(own), Some(saved)) = (&self.own, &self.saved) {
            let _ = tcsetattr(own, OptionalActions::Now, saved);
        }
    }
}

/// The terminal of the command, which a container's terminal in the foreground is carried to: one of
/// its standard streams, or else the one that controls it.
///
/// # Errors
/// ENXIO if there is none.
fn own_terminal() -> Result<OwnedFd, sys::Error> {
    for stream in [sys::stdio::stderr(), sys::stdio::stdout(), sys::stdio::stdin()] {
        if tcgetattr(stream).is_ok() {
            return rustix::io::fcntl_dupfd_cloexec(stream, 3).context("dup", "terminal");
        }
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, "/dev/tty", flags, Mode::empty()).context("open", "/dev/tty")
}

/// Our own terminal in raw mode: what is typed is the container's business. Returns what it was.
fn make_raw(own: &OwnedFd) -> Option<Termios> {
    let saved = tcgetattr(own).ok()?;
    let mut raw = saved.clone();
    raw.make_raw();
    // Output processing stays, as in runc: the newline of a message of ours begins a line.
    raw.output_modes = saved.output_modes;
    tcsetattr(own, OptionalActions::Now, &raw).ok()?;
    Some(saved)
}
