//! `criu swrk`: a criu process that serves one client over a socket and ends with the connection.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use cgroup::Cgroup;
use proto::messages::criu::{Features, Notice, Options, Request, Response, kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use sys::Context;
use sys::clone::Child;
use sys::signal::{SignalSet, read_signal, signalfd};
use sys::spawn::{Program, spawn};
use sys::wait::Deadline;

use super::program::{PROGRAM, find};
use crate::Error;

/// The oldest criu that reports its version.
const OLDEST: i32 = 30000;
/// The largest size of an answer, in bytes.
const LONGEST: usize = 1 << 16;
/// The maximum time for criu to report its version or its features. For these requests, criu does
/// not access the container.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cause of a failed operation.
#[derive(Debug)]
pub(super) enum Trouble {
    /// An error of this process.
    Ours(Error),
    /// An error of criu, whose log has details.
    Of(String),
}

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Ours(error.into())
    }
}

/// The callback for criu's notices, with the descriptor that criu passes along.
pub(super) type OnNotice<'a> = dyn FnMut(&Notice, Option<OwnedFd>) -> Result<(), Error> + 'a;

/// A running criu process, which is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Session {
    child: Child,
    socket: Option<OwnedFd>,
    /// Whether criu and its children have a process group of their own.
    own_group: bool,
    /// The version: 4.2.1 is 40201.
    version: i32,
    /// Whether criu's process was reaped.
    is_over: bool,
    ended: Ended,
    /// Yields the signals that interrupt the operation, if this process has blocked them.
    interrupts: Option<OwnedFd>,
    /// Whether criu was started in the cgroup.
    pub is_in_cgroup: bool,
    /// The time by which criu must have answered, and the reason if it has not.
    deadline: Option<(Deadline, String)>,
}

impl Session {
    /// Starts criu and requests its version. `streams` become its standard streams; `others` follow
    /// from descriptor 4 on. With `own_group`, criu gets its own process group, so that a
    /// terminal's signals do not reach criu: an interrupted criu would leave processes modified.
    /// Without `own_group`, the caller must have blocked signals: criu starts with
    /// [`SignalSet::INTERRUPTS`] blocked, and this process kills criu when it receives one of these
    /// signals. criu is killed if it has not finished after `timeout`.
    ///
    /// criu is started in `cgroup` if the kernel can do so: to move it there later takes an RCU grace period.
    /// criu finds programs in the directory `tools` first.
    ///
    /// # Errors
    /// If criu is missing or too old.
    pub fn begin(
        env: sys::Args,
        streams: [BorrowedFd<'_>; 3],
        others: &[BorrowedFd<'_>],
        own_group: bool,
        timeout: Option<Duration>,
        cgroup: Option<&Cgroup>,
        tools: Option<&str>,
    ) -> Result<Self, Error> {
        let deadline = timeout.map(|timeout| {
            let reason = format!("it has not finished within {timeout:?} (--timeout)");
            (Deadline::after(timeout), reason)
        });
        let path = find(env)?;
        let interrupts = match own_group {
            true => None,
            false => Some(signalfd(SignalSet::INTERRUPTS).context("signalfd", "criu")?),
        };
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .context("socketpair", "criu")?;
        let (trouble, theirs_of_trouble) = pipe_with(PipeFlags::CLOEXEC).context("pipe", "criu")?;
        sys::signal::reset_sigchld();
        let fds: Vec<BorrowedFd<'_>> =
            streams.into_iter().chain([theirs.as_fd()]).chain(others.iter().copied()).collect();
        let mut envp: Vec<_> = env.environment().collect();
        let search = tools.zip(env.env("PATH"));
        let search = search.map(|(tools, path)| super::c_string(&format!("PATH={tools}:{path}")));
        let search = search.transpose()?;
        if let Some(search) = &search {
            envp.retain(|variable| !variable.to_bytes().starts_with(b"PATH="));
            envp.push(search);
        }
        let entrances = match cgroup {
            Some(cgroup) => cgroup.entrances(true)?,
            None => Vec::new(),
        };
        let into = cgroup.and_then(Cgroup::dir_fd);
        let program = Program {
            path: &path,
            argv: &[c"criu", c"swrk", c"3"],
            envp: &envp,
            fds: &fds,
            own_group,
            blocked: if own_group { SignalSet::EMPTY } else { SignalSet::INTERRUPTS },
            into,
            entrances: &entrances,
            trouble: theirs_of_trouble.as_fd(),
        };
        let (child, is_in_cgroup) = match spawn(&program) {
            Err(_) if into.is_some() => {
                (spawn(&Program { into: None, entrances: &[], ..program }), false)
            }
            child => (child, cgroup.is_some()),
        };
        let child = child.context("clone", "criu")?;
        drop((theirs, theirs_of_trouble));
        let mut session = Self {
            child,
            socket: Some(ours),
            own_group,
            version: 0,
            is_over: false,
            ended: Ended::Unknown,
            interrupts,
            is_in_cgroup,
            deadline,
        };
        let mut errno = [0; 4];
        if let Ok(4) = rustix::io::read(&trouble, &mut errno) {
            let errno = Errno::from_raw_os_error(i32::from_ne_bytes(errno));
            return Err(sys::Error::new("exec", path.to_string_lossy(), errno).into());
        }
        session.ask_version(&path.to_string_lossy())?;
        Ok(session)
    }

    fn ask_version(&mut self, path: &str) -> Result<(), Error> {
        let request = Request { kind: kind::VERSION, keep_open: true, ..Request::default() };
        let answer = self.ask_soon(&request);
        let version = match answer {
            Ok(Response { version: Some(version), .. }) => version,
            Err(Trouble::Ours(error)) => return Err(error),
            Ok(_) => return Err(no_version(path, "its answer has none")),
            Err(Trouble::Of(text)) => return Err(no_version(path, &text)),
        };
        self.version = version
            .major
            .saturating_mul(10000)
            .saturating_add(version.minor.saturating_mul(100))
            .saturating_add(version.sublevel);
        self.require(OLDEST, "")
    }

    /// Checks that criu has at least the version `least`, which `what` needs.
    ///
    /// # Errors
    /// If criu is older; the message contains both versions.
    pub fn require(&self, least: i32, what: &str) -> Result<(), Error> {
        if self.version >= least {
            return Ok(());
        }
        let number =
            |version: i32| format!("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
        let why = if what.is_empty() { String::new() } else { format!(" for {what}") };
        Err(Error::Text(format!(
            "CRIU version {} must be {} or higher{why}",
            number(self.version),
            number(least)
        )))
    }

    /// Returns whether criu has at least this version.
    pub fn is(&self, least: i32) -> bool {
        self.version >= least
    }

    /// Returns criu's pid.
    pub fn pid(&self) -> Pid {
        self.child.pid
    }

    /// Returns a duplicate of criu's pidfd.
    pub fn pidfd(&self) -> Result<OwnedFd, Error> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.child.pidfd, 3).context("dup", "criu")?)
    }

    /// Fails if this kernel has no userfaultfd(2) that criu can use.
    ///
    /// # Errors
    /// runc's message.
    pub fn require_lazy_pages(&mut self) -> Result<(), Error> {
        match self.features()?.lazy_pages {
            true => Ok(()),
            false => Err(Error::text("criu is missing features: [LazyPages]")),
        }
    }

    /// Asks criu which of its optional features this kernel supports.
    pub fn features(&mut self) -> Result<Features, Error> {
        let request = Request {
            kind: kind::FEATURE_CHECK,
            keep_open: true,
            features: Some(Features { mem_track: true, lazy_pages: true }),
            ..Request::default()
        };
        match self.ask_soon(&request) {
            Ok(answer) => Ok(answer.features.unwrap_or_default()),
            Err(Trouble::Ours(error)) => Err(error),
            Err(Trouble::Of(text)) => {
                Err(Error::Text(format!("CRIU feature check failed: {text}")))
            }
        }
    }

    /// Makes criu perform the operation `what` with `options`, and waits until criu's process ends.
    ///
    /// # Errors
    /// If criu fails. If `on_notice` returns an error, in which case criu aborts. If a signal
    /// interrupts this process before criu's process has ended, in which case criu is killed, even
    /// if it has already answered.
    pub fn run(
        mut self,
        what: i32,
        options: Options,
        on_notice: &mut OnNotice<'_>,
    ) -> Result<Response, Trouble> {
        let request = Request { kind: what, options: Some(options), ..Request::default() };
        let answer = self.ask(&request, on_notice);
        // criu exits when the socket is closed, but may first finish its current work, such as undoing its changes.
        self.socket = None;
        let ended = self.await_end();
        let status = self.wait();
        let answer = answer?;
        ended?;
        match status {
            Ended::With(0) => Ok(answer),
            // After a pre-dump, criu waits for a request for another dump. It then fails because the connection is
            // closed. This failure is ignored.
            _ if what == kind::PRE_DUMP => Ok(answer),
            _ => Err(Trouble::Of(self.how_it_ended())),
        }
    }

    /// Sends a request that criu can answer without accessing a container, and waits for the answer
    /// no longer than [`PATIENCE`].
    fn ask_soon(&mut self, request: &Request) -> Result<Response, Trouble> {
        let reason = format!(
            "it has not answered within {} seconds: does ${PROGRAM} name a criu?",
            PATIENCE.as_secs()
        );
        let patience = (Deadline::after(PATIENCE), reason);
        let limit = self.deadline.take();
        self.deadline = Some(limit.clone().map_or(patience.clone(), |limit| limit.min(patience)));
        let answer = self.ask(request, &mut |_, _| Ok(()));
        self.deadline = limit;
        answer
    }

    /// Sends a request and waits for its answer.
    fn ask(
        &mut self,
        request: &Request,
        on_notice: &mut OnNotice<'_>,
    ) -> Result<Response, Trouble> {
        self.send(request)?;
        let mut failed = None;
        let result = loop {
            let (answer, fd) = match self.receive() {
                Ok(received) => received,
                Err(trouble) => break Err(trouble),
            };
            match (answer.kind, answer.success) {
                (kind::NOTIFY, true) => {}
                (_, true) => break Ok(answer),
                (kind, false) => {
                    let (kind, errno) = (kind::name(kind), answer.errno);
                    break Err(Trouble::Of(format!("criu failed: type {kind} errno {errno}")));
                }
            }
            if failed.is_none() {
                failed = on_notice(&answer.notice.unwrap_or_default(), fd).err();
            }
            let heard = Request {
                kind: kind::NOTIFY,
                notify_success: Some(failed.is_none()),
                ..Request::default()
            };
            if let Err(trouble) = self.send(&heard) {
                break Err(trouble);
            }
        };
        match failed {
            // The processes that criu was restoring died with it: this is why the notice's work failed.
            Some(_) if matches!(self.ended, Ended::By(_)) => result,
            // The first error is returned.
            Some(error) => Err(Trouble::Ours(error)),
            None => result,
        }
    }

    fn send(&self, request: &Request) -> Result<(), Trouble> {
        let Some(socket) = &self.socket else { return Err(Trouble::Of(String::new())) };
        match send(socket, &request.encode(), SendFlags::NOSIGNAL) {
            Ok(_) => Ok(()),
            // The next receive finds out why criu has ended.
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            Err(errno) => Err(sys::Error::new("send", "criu", errno).into()),
        }
    }

    fn receive(&mut self) -> Result<(Response, Option<OwnedFd>), Trouble> {
        let Some(socket) = &self.socket else { return Err(Trouble::Of(String::new())) };
        let mut bytes = vec![0; LONGEST];
        let (length, fd) = match self.has_answer(socket)? {
            true => match sys::fdpass::receive(socket, &mut bytes) {
                Err(Errno::CONNRESET) => (0, None),
                result => result.context("recvmsg", "criu")?,
            },
            false => (0, None),
        };
        match bytes.get(..length) {
            Some([]) | None => {
                self.socket = None;
                self.wait();
                Err(Trouble::Of(self.how_it_ended()))
            }
            Some(_) if length == LONGEST => Err(Trouble::Of("criu's answer is too long".into())),
            Some(answer) => match Response::decode(answer) {
                Ok(answer) => Ok((answer, fd)),
                Err(error) => Err(Trouble::Of(format!("criu's answer cannot be read: {error}"))),
            },
        }
    }
}

impl Session {
    /// Waits for an answer. Returns false if criu has exited without an answer. The exit is not detected by an end of
    /// file, because the processes that criu creates also have the socket open.
    fn has_answer(&self, socket: &OwnedFd) -> Result<bool, Error> {
        loop {
            let [answered, ended] = self.watch(socket, PollFlags::IN)?;
            if answered {
                return Ok(true);
            }
            if ended {
                // criu may have answered and exited after poll(2) checked the socket.
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                if matches!(poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&now)), Ok(1..)) {
                    return Ok(true);
                }
                self.end_helpers();
                return Ok(false);
            }
        }
    }

    /// Waits until criu's process has ended.
    fn await_end(&self) -> Result<(), Error> {
        if self.is_over {
            return Ok(());
        }
        loop {
            if let [_, true] = self.watch(&self.child.pidfd, PollFlags::empty())? {
                return Ok(());
            }
        }
    }

    /// Waits for an event; returns whether `socket` has one of the `wanted` events, and whether criu has ended. If a
    /// signal interrupts this process first, or the deadline passes, kills criu and returns an error.
    fn watch(&self, socket: &OwnedFd, wanted: PollFlags) -> Result<[bool; 2], Error> {
        let signals = self.interrupts.as_ref();
        let of_signals = if signals.is_some() { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(socket, wanted),
            PollFd::new(&self.child.pidfd, PollFlags::IN),
            PollFd::new(signals.unwrap_or(socket), of_signals),
        ];
        loop {
            let deadline = self.deadline.as_ref();
            let left = deadline.map(|(deadline, _)| deadline.left().unwrap_or_default());
            match (poll(&mut fds, left.as_ref()), deadline) {
                (Ok(0), Some((deadline, reason))) if deadline.left().is_none() => {
                    let _ = sys::signal::send(self.child.pidfd.as_fd(), 9);
                    return Err(Error::Text(format!("criu was killed, because {reason}")));
                }
                (Ok(0) | Err(Errno::INTR), _) => {}
                (Ok(_), _) => break,
                (Err(errno), _) => return Err(sys::Error::new("poll", "criu", errno).into()),
            }
        }
        if let Some(signal) = signals.and_then(|fd| read_signal(fd.as_fd()).ok()) {
            let _ = sys::signal::send(self.child.pidfd.as_fd(), 9);
            return Err(Error::Text(format!(
                "criu was killed, because signal {signal} interrupted this command: try again"
            )));
        }
        let [answer, end, _] = &fds;
        Ok([!answer.revents().is_empty(), !end.revents().is_empty()])
    }

    /// Kills the process group of criu and its children, if criu has its own process group.
    fn end_helpers(&self) {
        if self.own_group {
            let _ = kill_process_group(self.child.pid, Signal::KILL);
        }
    }
}

/// Describes how criu's process ended.
#[derive(Debug, Clone, Copy)]
enum Ended {
    With(i32),
    By(i32),
    Unknown,
}

impl Session {
    /// Waits for criu's exit.
    fn wait(&mut self) -> Ended {
        if !self.is_over {
            self.is_over = true;
            self.ended = match launch::wait(&self.child.pidfd) {
                Ok(status) => match (status.exit_status(), status.terminating_signal()) {
                    (Some(status), _) => Ended::With(status),
                    (_, Some(signal)) => Ended::By(signal),
                    _ => Ended::Unknown,
                },
                Err(_) => Ended::Unknown,
            };
        }
        self.ended
    }

    fn how_it_ended(&self) -> String {
        match self.ended {
            Ended::With(status) => format!("criu failed: it ended with exit status {status}"),
            Ended::By(signal) => format!("criu failed: it was killed by signal {signal}"),
            Ended::Unknown => String::from("criu failed: it is gone"),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = sys::signal::send(self.child.pidfd.as_fd(), 9);
            self.end_helpers();
            self.wait();
        }
    }
}

fn no_version(path: &str, why: &str) -> Error {
    Error::Text(format!(
        "CRIU version check failed: {path} does not report its version: 3.0 or newer is required: {why}"
    ))
}
