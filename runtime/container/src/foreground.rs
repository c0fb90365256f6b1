//! A foreground `run` or `exec`: forwards signals to the process, relays its terminal, and waits for its exit.

use launch::{Pending, PendingScope};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, read, write};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use sys::Context;
use sys::clone::Child;
use sys::signal::{self, SignalSet};
use sys::stdio::{stdin, stdout, write_all};

use crate::console::Terminal;
use crate::notify::Relay;
use crate::{Error, Trace};

/// The time after which a `run` reaps the helper processes of its start.
const A_WHILE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const SIGKILL: i32 = 9;
const SIGCHLD: i32 = 17;
const SIGURG: i32 = 23;
const SIGWINCH: i32 = 28;

/// The signal handling of a foreground command: signals are blocked before the clone and read from a signalfd(2), so
/// that no signal is lost before the command waits.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    old: SignalSet,
}

impl Signals {
    /// Blocks all signals. With `subreaper`, this process becomes the parent of orphaned descendants and reaps them.
    pub fn block(subreaper: bool, trace: &Trace) -> Result<Self, Error> {
        trace.point("block", "signals")?;
        signal::reset_sigchld();
        if subreaper {
            set_child_subreaper(Some(getpid())).context("prctl", "PR_SET_CHILD_SUBREAPER")?;
        }
        let old = signal::set_mask(SignalSet::ALL).context("rt_sigprocmask", "")?;
        let fd = signal::signalfd(SignalSet::ALL).context("signalfd", "")?;
        Ok(Self { fd, old })
    }

    /// Waits for the exit of `child`; returns its exit status, or 128 + n if signal n killed it. Signals to a `pending`
    /// init are held back until init has executed its program. `scope` is taken when its job ends before the container
    /// does. The messages that `notify` receives are forwarded to the service manager.
    pub fn wait(
        &self,
        child: &Child,
        terminal: Option<&Terminal>,
        mut pending: Option<&mut Pending>,
        scope: &mut Option<PendingScope>,
        mut notify: Option<Relay>,
    ) -> Result<i32, Error> {
        let mut patience = pending.is_some().then_some(A_WHILE);
        let mut carrier = terminal.map(Carrier::new);
        let mut refusal = None;
        loop {
            if scope.as_mut().is_some_and(|scope| scope.socket().is_none()) {
                refusal = end_wait(scope, child).or(refusal);
            }
            let mut fds = [
                PollFd::new(&child.pidfd, PollFlags::IN),
                PollFd::new(&self.fd, PollFlags::IN),
                PollFd::new(&self.fd, PollFlags::empty()),
                PollFd::new(&self.fd, PollFlags::empty()),
                PollFd::new(&self.fd, PollFlags::empty()),
                PollFd::new(&self.fd, PollFlags::empty()),
            ];
            if let Some(listener) = notify.as_ref().and_then(Relay::listener) {
                fds[2] = PollFd::new(listener, PollFlags::IN);
            }
            if let Some(socket) = scope.as_mut().and_then(PendingScope::socket) {
                fds[3] = PollFd::from_borrowed_fd(socket, PollFlags::IN);
            }
            let count = match &carrier {
                Some(carrier) => carrier.watch(&mut fds),
                None => 4,
            };
            let ready = match poll(fds.get_mut(..count).unwrap_or_default(), patience.as_ref()) {
                Err(Errno::INTR) => continue,
                result => result.context("poll", "")?,
            };
            // poll(2) has timed out: the container has run for `A_WHILE`, so its helpers have exited and can be reaped.
            if let (Some(pending), 0) = (&mut pending, ready) {
                pending.tidy();
                patience = None;
                continue;
            }
            let ready = fds.map(|fd| fd.revents());
            let [exited, signalled, said, scoped, input, output] = ready;
            if !scoped.is_empty() {
                refusal = end_wait(scope, child).or(refusal);
            }
            if let Some(carrier) = &mut carrier {
                carrier.carry(input, output);
            }
            if let (Some(notify), false) = (&mut notify, said.is_empty()) {
                notify.carry();
            }
            if !signalled.is_empty() {
                self.forward(child, terminal, pending.as_deref());
            }
            if exited.is_empty() && signalled.is_empty() {
                continue;
            }
            if let Some(status) = reap(child).context("waitpid", "")? {
                if let Some(carrier) = &mut carrier {
                    carrier.drain();
                }
                return refusal.map_or(Ok(status), |error| Err(error.into()));
            }
        }
    }

    fn forward(&self, child: &Child, terminal: Option<&Terminal>, pending: Option<&Pending>) {
        while let Ok(number) = signal::read_signal(self.fd.as_fd()) {
            match number {
                SIGWINCH => {
                    if let Some(terminal) = terminal {
                        terminal.copy_size();
                    }
                }
                // SIGCHLD is handled by the caller; SIGURG is not meant for the container.
                SIGCHLD | SIGURG => {}
                number => {
                    if let Some(pending) = pending {
                        pending.await_exec();
                    }
                    let _ = signal::send(child.pidfd.as_fd(), number);
                }
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = signal::set_mask(self.old);
    }
}

/// Ends the wait for systemd. Returns the error with which a container ends that systemd refuses after all.
#[cold]
fn end_wait(scope: &mut Option<PendingScope>, child: &Child) -> Option<launch::Error> {
    let error = scope.take()?.started().err()?;
    let _ = signal::send(child.pidfd.as_fd(), SIGKILL);
    Some(error)
}

/// Reaps every exited child, including adopted descendants. Returns the exit status of `child` if it has exited, which is
/// 128 + n if signal n killed it.
///
/// # Errors
/// Those of waitpid(2).
pub fn reap(child: &Child) -> Result<Option<i32>, Errno> {
    let mut ours = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == child.pid => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                ours = signal.or(status.exit_status()).or(Some(255));
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(ours),
            Err(errno) => return Err(errno),
        }
    }
}

/// Relays data between the command's standard streams and the container's terminal.
struct Carrier<'a> {
    terminal: &'a Terminal,
    /// Input that the terminal has not accepted yet.
    pending: [u8; 4096],
    length: usize,
    input_open: bool,
    output_open: bool,
}

impl<'a> Carrier<'a> {
    fn new(terminal: &'a Terminal) -> Self {
        Self { terminal, pending: [0; 4096], length: 0, input_open: true, output_open: true }
    }

    /// Stores the descriptors that must be polled in the last two entries of `fds`. Returns the number of entries of
    /// `fds` to poll.
    fn watch<'f>(&'f self, fds: &mut [PollFd<'f>; 6]) -> usize {
        let [_, _, _, _, input, output] = fds;
        // A descriptor that must not be read now is left out, because poll(2) reports a hang-up
        // even if no events are requested.
        if self.input_open && self.length == 0 {
            *input = PollFd::from_borrowed_fd(stdin(), PollFlags::IN);
        }
        let mut events = PollFlags::empty();
        if self.output_open {
            events |= PollFlags::IN;
        }
        if self.length > 0 {
            events |= PollFlags::OUT;
        }
        *output = PollFd::from_borrowed_fd(self.terminal.master(), events);
        if self.output_open { 6 } else { 5 }
    }

    fn carry(&mut self, input: PollFlags, output: PollFlags) {
        if self.input_open && self.length == 0 && !input.is_empty() {
            match read(stdin(), &mut self.pending) {
                Ok(0) => self.input_open = false,
                Ok(length) => self.length = length,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => self.input_open = false,
            }
        }
        if self.length > 0 {
            self.push();
        }
        if !output.is_empty() {
            self.pull();
        }
    }

    fn push(&mut self) {
        let bytes = self.pending.get(..self.length).unwrap_or_default();
        match write(self.terminal.master(), bytes) {
            Ok(taken) => {
                self.pending.copy_within(taken..self.length, 0);
                self.length -= taken;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.length = 0,
        }
    }

    /// Relays one buffer of output; returns `false` if there is no more output now.
    fn pull(&mut self) -> bool {
        let mut bytes = [0u8; 8192];
        match read(self.terminal.master(), &mut bytes) {
            Ok(0) => self.output_open = false,
            Ok(length) => {
                let _ = write_all(stdout(), bytes.get(..length).unwrap_or_default());
                return true;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // EIO: all slave descriptors are closed.
            Err(_) => self.output_open = false,
        }
        false
    }

    /// Relays the output that is still unread when the process has exited.
    fn drain(&mut self) {
        while self.pull() {}
    }
}
