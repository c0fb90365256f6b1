//! The terminals of foreground commands. Init sends the master of the container's terminal over a socket pair; the
//! command's own terminal is in raw mode until the command ends.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use sys::Context;

use crate::{Error, Trace};

/// The destination to which init sends the master of a process's terminal.
#[derive(Debug)]
pub(crate) enum Console<'a> {
    /// The process has no terminal.
    None,
    /// Init sends the master to the caller's socket with this path. The descriptor is the connection to that socket, if
    /// an earlier attempt has connected to it.
    Socket(&'a str, Option<OwnedFd>),
    /// Init sends the master to a connected socket of the caller.
    Given(OwnedFd),
    /// Init sends the master to this process, over a socket pair. The descriptors are init's end and, until
    /// `take_receiver` takes it, this process's end.
    Own(OwnedFd, Option<OwnedFd>),
}

/// The receiver of a terminal, as named by the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receiver<'a> {
    /// The path of a socket.
    pub socket: Option<&'a str>,
    /// A connected socket.
    pub given: Option<BorrowedFd<'a>>,
}

impl<'a> Console<'a> {
    /// Chooses the receiver by runc's rules: the terminal of a detached command goes to a console socket, the terminal
    /// of a foreground command to this process.
    ///
    /// # Errors
    /// If a detached terminal has no socket, or a socket is given without a detached terminal (with runc's messages);
    /// if a system call fails.
    pub fn prepare(
        terminal: bool,
        receiver: Receiver<'a>,
        detach: bool,
        connected: Option<OwnedFd>,
        trace: &Trace,
    ) -> Result<Self, Error> {
        const UNWANTED: &str =
            "cannot use console socket if dayfly will not detach or allocate tty";
        trace.point("prepare", "console")?;
        if let Some(given) = receiver.given {
            if !terminal {
                return Err(Error::text(UNWANTED));
            }
            let theirs = rustix::io::fcntl_dupfd_cloexec(given, 3).context("dup", "console")?;
            return Ok(Self::Given(theirs));
        }
        match (terminal, detach, receiver.socket) {
            (true, true, Some(socket)) => Ok(Self::Socket(socket, connected)),
            (true, true, None) => Err(Error::text(
                "cannot allocate tty if dayfly will detach without setting console socket",
            )),
            (_, _, Some(_)) => Err(Error::text(UNWANTED)),
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

    /// Returns the console for the plan.
    pub fn source(&self) -> Option<plan::Console<'a>> {
        match self {
            Self::None => None,
            Self::Socket(path, _) => Some(plan::Console::Socket(path)),
            Self::Given(_) => Some(plan::Console::Given),
            Self::Own(..) => Some(plan::Console::Foreground),
        }
    }

    /// Takes this process's end of the socket pair of [`Console::Own`].
    pub fn take_receiver(&mut self) -> Option<OwnedFd> {
        match self {
            Self::Own(_, ours) => ours.take(),
            _ => None,
        }
    }

    /// Returns init's end of the socket pair of [`Console::Own`], or the connection to the caller's socket.
    pub fn into_sender(self) -> Option<OwnedFd> {
        match self {
            Self::Given(theirs) | Self::Own(theirs, _) => Some(theirs),
            Self::Socket(_, connected) => connected,
            Self::None => None,
        }
    }
}

/// The master of the container's terminal. The command's own terminal is in raw mode until this value is dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
    /// The command's own terminal; `None` if it cannot be opened.
    own: Option<OwnedFd>,
    /// The settings of the command's own terminal before raw mode.
    saved: Option<Termios>,
}

impl Terminal {
    /// Receives the master from init, if `socket` is given.
    ///
    /// # Errors
    /// If init sent no descriptor.
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

    /// Returns the size of the command's own terminal. Init sets this size before the program begins.
    pub fn own_size() -> Option<Winsize> {
        size_of(&own_terminal().ok()?)
    }

    /// Returns the master of the container's terminal; non-blocking.
    pub fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// Copies the size of the command's own terminal to the container's terminal. The kernel sends SIGWINCH only if the
    /// size differs.
    pub fn copy_size(&self) {
        if let Some(size) = self.own.as_ref().and_then(size_of) {
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

/// Returns the size of a terminal, if the terminal has one.
fn size_of(terminal: &OwnedFd) -> Option<Winsize> {
    tcgetwinsize(terminal).ok().filter(|size| (size.ws_row, size.ws_col) != (0, 0))
}

/// Returns the command's own terminal, with which a foreground container's terminal exchanges data: one of the
/// command's standard streams if it is a terminal, or else the controlling terminal.
///
/// # Errors
/// ENXIO if the command has no terminal.
fn own_terminal() -> Result<OwnedFd, sys::Error> {
    for stream in [sys::stdio::stderr(), sys::stdio::stdout(), sys::stdio::stdin()] {
        if tcgetattr(stream).is_ok() {
            return rustix::io::fcntl_dupfd_cloexec(stream, 3).context("dup", "terminal");
        }
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, "/dev/tty", flags, Mode::empty()).context("open", "/dev/tty")
}

/// Puts the command's own terminal into raw mode, so that the container's terminal interprets all input. Returns the
/// former settings.
fn make_raw(own: &OwnedFd) -> Option<Termios> {
    let saved = tcgetattr(own).ok()?;
    let mut raw = saved.clone();
    raw.make_raw();
    // Output processing (ONLCR) stays enabled, as in runc, so that newlines in dayfly's messages return the cursor.
    raw.output_modes = saved.output_modes;
    tcsetattr(own, OptionalActions::Now, &raw).ok()?;
    Some(saved)
}
