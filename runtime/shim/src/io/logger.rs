//! A logger: a host program that receives a process's output (containerd's `binary` scheme).
//!
//! The logger's descriptor 3 is the stdout pipe, 4 is the stderr pipe, and 5 is the pipe on which it reports that it is
//! ready. The container's program writes directly to the first two pipes: no data passes through the shim, except a
//! terminal's output.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use sys::Context;
use sys::signal::SignalSet;
use sys::spawn::{Program, spawn};
use sys::wait::is_readable;

use super::uri;
use super::{Asked, Error, part};
use crate::poller::{Interest, Poller, Source};

/// The number of seconds within which a logger must be ready.
const READY: i64 = 10;
/// The number of seconds after the end of its input within which a logger may exit by itself. After
/// this time, the shim sends SIGTERM. Go's shim sends SIGTERM at once, so a logger without a
/// handler loses unread data.
const READS_OUT: i64 = 1;
/// The number of seconds after SIGTERM within which a logger must exit. After this time, the shim
/// sends SIGKILL, as Go's shim does.
const ENDS: i64 = 12;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// The state of a logger.
#[derive(Debug)]
enum State {
    /// The logger is starting. The pipe `ready` reports that the logger is ready. The pipe `trouble` contains an errno
    /// if the logger's program could not be executed.
    Begins { ready: OwnedFd, trouble: OwnedFd },
    /// The logger is running.
    Works,
    /// The logger has one second to exit by itself, before it is sent SIGTERM.
    ReadsOut,
    /// The logger was sent SIGTERM.
    Asked,
    /// The logger was killed, or has exited.
    Over,
}

/// A running logger. The logger's process is a child of the shim, and is reaped by the loop like all other children.
#[derive(Debug)]
pub(super) struct Logger {
    path: String,
    says_ready: bool,
    pidfd: OwnedFd,
    timer: OwnedFd,
    state: State,
    failure: Option<Error>,
    process: u32,
    has_ended: bool,
}

impl Logger {
    /// Starts a logger that reads `stdout` and `stderr`.
    ///
    /// # Errors
    /// Those of clone3(2), pipe2(2) and other system calls. If the program cannot be executed, [`Logger::is_ready`]
    /// returns the error.
    pub fn start(
        logger: &uri::Logger,
        asked: &Asked<'_>,
        stdout: &OwnedFd,
        stderr: &OwnedFd,
    ) -> Result<Self, Error> {
        let path = logger.path.to_string_lossy().into_owned();
        let variable = |name: &str, value: &str| {
            let what = "a NUL in its environment";
            CString::new(format!("{name}={value}"))
                .map_err(|_| Error::Logger { path: path.clone(), what })
        };
        let id = variable("CONTAINER_ID", asked.process)?;
        let namespace = variable("CONTAINER_NAMESPACE", asked.namespace)?;
        let args = logger.args.iter().map(CString::as_c_str);
        let argv: Vec<&CStr> = [logger.path.as_c_str()].into_iter().chain(args).collect();

        let flags = PipeFlags::CLOEXEC;
        let (ready, says) = pipe_with(flags).context("pipe2", "logger")?;
        let (trouble, failing) = pipe_with(flags).context("pipe2", "logger")?;
        super::open::never_wait(&ready)?;
        super::open::never_wait(&trouble)?;
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .context("open", "/dev/null")?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .context("timerfd_create", "")?;
        let null = null.as_fd();
        let child = spawn(&Program {
            path: &logger.path,
            argv: &argv,
            envp: &[&id, &namespace],
            fds: &[null, null, null, stdout.as_fd(), stderr.as_fd(), says.as_fd()],
            own_group: false,
            blocked: SignalSet::EMPTY,
            into: None,
            entrances: &[],
            trouble: failing.as_fd(),
        })
        .context("clone3", &path)?;
        let logger = Self {
            path,
            says_ready: logger.says_ready,
            pidfd: child.pidfd,
            timer,
            state: State::Begins { ready, trouble },
            failure: None,
            process: 0,
            has_ended: false,
        };
        logger.set_timer(READY);
        Ok(logger)
    }

    /// Adds the logger's descriptors to the poller.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn register(&mut self, poller: &Poller, process: u32) -> Result<(), Errno> {
        self.process = process;
        if let State::Begins { ready, .. } = &self.state {
            poller.add(ready, Source::Stream(process, part::READY), Interest::IN)?;
        }
        poller.add(&self.timer, Source::Stream(process, part::TIMER), Interest::IN)?;
        poller.add(&self.pidfd, Source::Stream(process, part::LOGGER), Interest::IN)
    }

    /// Returns whether the logger has become ready.
    ///
    /// # Errors
    /// If the logger will never be ready.
    pub fn is_ready(&self) -> Result<bool, Error> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(!matches!(self.state, State::Begins { .. })),
        }
    }

    /// Returns whether the logger's process has exited.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Handles events on the logger's readiness pipe.
    pub fn speaks(&mut self, poller: &Poller) {
        let State::Begins { ready, trouble } = &self.state else { return };
        let mut byte = [0];
        let said = match read(ready, &mut byte) {
            Ok(bytes) => bytes > 0,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => false,
        };
        // The logger's process has written to the pipe or closed the pipe. So the process has already executed the
        // program, or has exited.
        let mut errno = [0; 4];
        if let Ok(4) = read(trouble, &mut errno) {
            let errno = Errno::from_raw_os_error(i32::from_ne_bytes(errno));
            let failure = sys::Error::new("execve", self.path.as_str(), errno);
            self.fail(failure.into(), poller);
        } else if self.says_ready && !said {
            self.fail(
                self.error("has ended, or closed descriptor 5, without reporting that it is ready"),
                poller,
            );
        } else {
            self.set_timer(0);
            self.change(State::Works, poller);
        }
    }

    /// Handles the exit of the logger's process.
    pub fn ends(&mut self, poller: &Poller) {
        if is_readable(&self.pidfd) {
            // The logger's last message may be in the same batch of events as its exit.
            self.speaks(poller);
            self.has_ended = true;
            let _ = poller.remove(&self.pidfd);
            // If the logger is still starting, a child of the logger's process may report that the logger is ready.
            if !matches!(self.state, State::Begins { .. }) {
                self.leave(poller);
            }
        }
    }

    /// Handles the expiry of the logger's timer, whose meaning depends on the logger's state.
    pub fn is_late(&mut self, poller: &Poller) {
        let mut times = [0; 8];
        if read(&self.timer, &mut times).is_err() {
            return;
        }
        match &self.state {
            State::Begins { .. } => self.fail(self.error("not ready after 10 s"), poller),
            State::ReadsOut => self.ask(poller),
            State::Asked => self.kill(poller),
            State::Works | State::Over => {}
        }
    }

    /// Begins to end the logger: gives it time to exit by itself, then sends SIGTERM, then SIGKILL.
    pub fn settle(&mut self, poller: &Poller) {
        if let State::Begins { .. } | State::Works = self.state {
            self.set_timer(READS_OUT);
            self.change(State::ReadsOut, poller);
        }
    }

    /// Sends SIGTERM, or SIGKILL if SIGTERM was already sent, and does not wait for the logger's
    /// exit. Removes the logger's descriptors from the poller.
    pub fn abandon(&mut self, poller: &Poller) {
        match self.state {
            State::Over => {}
            State::Asked => self.kill(poller),
            _ => self.ask(poller),
        }
        self.leave(poller);
    }

    fn ask(&mut self, poller: &Poller) {
        let _ = sys::signal::send(self.pidfd.as_fd(), SIGTERM);
        self.set_timer(ENDS);
        self.change(State::Asked, poller);
    }

    fn kill(&mut self, poller: &Poller) {
        let _ = sys::signal::send(self.pidfd.as_fd(), SIGKILL);
        self.change(State::Over, poller);
    }

    fn fail(&mut self, failure: Error, poller: &Poller) {
        self.failure = Some(failure);
        self.kill(poller);
    }

    fn error(&self, what: &'static str) -> Error {
        Error::Logger { path: self.path.to_string(), what }
    }

    fn change(&mut self, state: State, poller: &Poller) {
        if let State::Begins { ready, .. } = &self.state {
            let _ = poller.remove(ready);
        }
        self.state = state;
    }

    fn leave(&mut self, poller: &Poller) {
        self.change(State::Over, poller);
        let _ = poller.remove(&self.timer);
        let _ = poller.remove(&self.pidfd);
    }

    /// Sets the timer, in seconds; 0 disables it.
    fn set_timer(&self, seconds: i64) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once =
            Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: seconds, tv_nsec: 0 } };
        // timerfd_settime(2) cannot fail with valid values.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Returns the pidfd, for tests, which must reap the logger themselves.
    #[cfg(test)]
    pub fn pidfd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
