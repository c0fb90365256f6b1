//! A logger: a program of the host that takes a process's output (containerd's `binary` scheme).
//!
//! It has stdout's pipe as descriptor 3, stderr's as 4, and as 5 the pipe by which it says that it is ready. The
//! program writes into its pipes itself: nothing passes through the shim, but for a terminal's output.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use sys::Context;
use sys::spawn::{Program, spawn};

use super::uri;
use super::{Asked, Error, part};
use crate::poller::{Interest, Poller, Source};

/// Seconds that a logger has to become ready.
const READY: i64 = 10;
/// Seconds that a logger has to end at the end of its input, before it is asked to. Go's shim asks at once; a logger
/// that leaves it at the signal's default action loses then what it has not read.
const READS_OUT: i64 = 1;
/// Seconds that a logger has to end after that; as with Go's shim.
const ENDS: i64 = 12;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// What is waited for.
#[derive(Debug)]
enum State {
    /// That it says it is ready, by this pipe. The other one has an errno if it could not be executed.
    Begins { ready: OwnedFd, trouble: OwnedFd },
    /// Nothing: it works.
    Works,
    /// That it ends by itself.
    ReadsOut,
    /// That it heeds SIGTERM.
    Asked,
    /// It was killed, or has ended.
    Over,
}

/// A running logger. Its end is reaped by whoever reaps the shim's children.
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
    /// Those of clone3(2), pipe2(2) and the like. That its program can't be executed is told by
    /// [`Logger::is_ready`].
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

    /// Has what tells of it in the poller.
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

    /// Whether it has become ready.
    ///
    /// # Errors
    /// That it never will.
    pub fn is_ready(&self) -> Result<bool, Error> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(!matches!(self.state, State::Begins { .. })),
        }
    }

    /// Whether its process has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Its pipe is ready: what it says.
    pub fn speaks(&mut self, poller: &Poller) {
        let State::Begins { ready, trouble } = &self.state else { return };
        let mut byte = [0];
        let said = match read(ready, &mut byte) {
            Ok(bytes) => bytes > 0,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => false,
        };
        // Decided by now: who says something, or closes what it could say it by, has been executed or has ended.
        let mut errno = [0; 4];
        if let Ok(4) = read(trouble, &mut errno) {
            let errno = Errno::from_raw_os_error(i32::from_ne_bytes(errno));
            let failure = sys::Error::new("execve", self.path.as_str(), errno);
            self.fail(failure.into(), poller);
        } else if self.says_ready && !said {
            self.fail(
                self.error("has ended, or closed descriptor 5, without saying that it is ready"),
                poller,
            );
        } else {
            self.set_timer(0);
            self.change(State::Works, poller);
        }
    }

    /// Its process is over.
    pub fn ends(&mut self, poller: &Poller) {
        if !self.is_alive() {
            // What it has said last may be in the same batch of events as its end.
            self.speaks(poller);
            self.has_ended = true;
            let _ = poller.remove(&self.pidfd);
            // One that has gone to the background may have left it to its child to say so.
            if !matches!(self.state, State::Begins { .. }) {
                self.leave(poller);
            }
        }
    }

    /// Its time is over, for what it is in.
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

    /// There is no more for it to come: gives it time to end, then asks it, then kills it.
    pub fn settle(&mut self, poller: &Poller) {
        if let State::Begins { .. } | State::Works = self.state {
            self.set_timer(READS_OUT);
            self.change(State::ReadsOut, poller);
        }
    }

    /// Does not wait for its end: asks it, or kills it if it was asked before. It is not in the poller any more.
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

    fn is_alive(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&now));
        ended == Ok(0)
    }

    /// Sets the time limit, in seconds; 0 for none.
    fn set_timer(&self, seconds: i64) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once =
            Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: seconds, tv_nsec: 0 } };
        // It fails for no value that is one.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// For who reaps it in tests.
    #[cfg(test)]
    pub fn pidfd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
