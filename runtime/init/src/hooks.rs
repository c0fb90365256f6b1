//! Runs hooks: programs that read the container's state from standard input and may have a time limit.
//!
//! Used by the parent, by init and by later commands. State and output are passed in memfds. A pipe could fill up, so
//! dayfly would have to poll the pipe as well; with memfds, dayfly polls only the hook's pidfd.
//!
//! The process of a startContainer hook loads the filter and sets its final capabilities itself, right before its exec.
//! So a profile need not allow the calls that init makes to run the hook (clone3, memfd_create, waitid).

use core::ffi::CStr;
use core::fmt::Write;
use core::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use rustix::io::Errno;
use rustix::process::{
    Pid, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, setpgid,
    setrlimit, waitid,
};
use sys::clone::{Child, Clone, CloneFlags, clone3};
use sys::recorder::now;
use sys::stdio::write_all;

use crate::failure::Failure;
use crate::signal_words::SignalWords;
use crate::step::{Hook, Hooks, Limit, StateText};

/// The number of bytes of a failed hook's output that the error quotes.
const QUOTED: usize = 160;

/// The text with which the output begins if a hook's process could not execute the hook. Go programs, such as runc,
/// write the same text.
const NOT_EXECUTED: &[u8] = b"fork/exec ";

/// A hook that failed.
#[derive(Debug)]
pub struct HookFailure {
    /// The hook's index in the list of its kind.
    pub index: usize,
    /// The reason.
    pub reason: Reason,
    /// The end of the hook's output.
    output: [u8; QUOTED],
    length: usize,
}

/// The parameters for running hooks.
#[derive(Default, Clone, Copy)]
pub struct Manner<'a> {
    /// The working directory of the hooks.
    pub directory: Option<&'a CStr>,
    /// The value of HOME for hooks that get the environment of the container's process.
    pub home: Option<&'a CStr>,
    /// The limit on open descriptors of each hook's process, if it differs from this process's.
    pub limit: Option<Limit>,
    /// Called in each hook's process right before its exec.
    pub confine: Option<&'a dyn Fn() -> Result<(), Failure>>,
    /// Called after each hook has exited, with its pid, start time and end time.
    pub lived: Option<&'a Lived<'a>>,
}

/// A callback for hooks that have exited.
pub type Lived<'a> = dyn Fn(&Hook<'_>, Pid, (u64, u64)) + 'a;

/// The reason why a hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The hook could not be started, or waited for.
    Errno(Errno),
    /// The hook's process could not execute the hook. The output contains the path and the operation.
    NotExecuted(Errno),
    /// The hook exited with this status.
    Status(i32),
    /// The hook was killed by this signal.
    Signal(i32),
    /// The hook exceeded its timeout, in seconds.
    Timeout(u32),
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Errno(errno) | Self::NotExecuted(errno) => {
                f.write_str(sys::errno::describe(*errno))
            }
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "signal: {}", SignalWords(*signal)),
            Self::Timeout(seconds) => write!(f, "hook ran past specified timeout of {seconds}s"),
        }
    }
}

impl HookFailure {
    /// Returns the hook's output, truncated.
    pub fn output(&self) -> &[u8] {
        self.output.get(..self.length).unwrap_or_default().trim_ascii()
    }

    /// Returns the error message in runc's words.
    pub fn describe(&self, hooks: &Hooks<'_>) -> impl core::fmt::Display {
        core::fmt::from_fn(|f| {
            write!(f, "error running {} hook #{}: ", hooks.kind, self.index)?;
            let output = self.output();
            if let Reason::NotExecuted(errno) = self.reason {
                write_lossy(f, output)?;
                let reason = sys::errno::describe(errno);
                // The reason may be cut off if the path is long.
                return if output.ends_with(reason.as_bytes()) {
                    Ok(())
                } else {
                    write!(f, "…: {reason}")
                };
            }
            write!(f, "{}", self.reason)?;
            if output.is_empty() {
                return Ok(());
            }
            f.write_str(", output: ")?;
            write_lossy(f, output)
        })
    }
}

fn write_lossy(f: &mut impl Write, bytes: &[u8]) -> core::fmt::Result {
    bytes.utf8_chunks().try_for_each(|chunk| {
        f.write_str(chunk.valid())?;
        if chunk.invalid().is_empty() { Ok(()) } else { f.write_char(char::REPLACEMENT_CHARACTER) }
    })
}

/// Runs all hooks of a kind in order, up to the first failure.
///
/// # Errors
/// The hook that failed.
pub fn run_all(
    hooks: &Hooks<'_>,
    state: &StateText<'_>,
    status: &str,
    pid: i32,
    manner: &Manner<'_>,
) -> Result<(), HookFailure> {
    for (index, hook) in hooks.list.iter().enumerate() {
        let mut failure =
            HookFailure { index, reason: Reason::Status(0), output: [0; QUOTED], length: 0 };
        match run(hook, state, status, pid, manner, &mut failure) {
            Ok(()) => {}
            Err(reason) => {
                failure.reason = reason;
                return Err(failure);
            }
        }
    }
    Ok(())
}

/// A `core::fmt` writer to a memfd.
struct Writer<'a>(&'a OwnedFd);

impl Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        write_all(self.0, text.as_bytes()).map_err(|_| core::fmt::Error)
    }
}

fn run(
    hook: &Hook<'_>,
    state: &StateText<'_>,
    status: &str,
    pid: i32,
    manner: &Manner<'_>,
    failure: &mut HookFailure,
) -> Result<(), Reason> {
    let input = memfd_create(c"state", MemfdFlags::CLOEXEC).map_err(Reason::Errno)?;
    let output = memfd_create(c"output", MemfdFlags::CLOEXEC).map_err(Reason::Errno)?;
    write!(Writer(&input), "{}{}", state.head(), StateText::tail(status, pid))
        .and_then(|()| seek(&input, SeekFrom::Start(0)).map(drop).map_err(|_| core::fmt::Error))
        .map_err(|_| Reason::Errno(Errno::IO))?;

    let start = manner.lived.map_or(0, |_| now());
    let child = spawn(hook, &input, &output, manner).map_err(Reason::Errno)?;
    let timed_out = match hook.timeout {
        Some(seconds) => !exits_within(&child.pidfd, seconds),
        None => false,
    };
    if timed_out {
        // The group exists as long as its leader is not reaped. It has the hook's children, too.
        let _ = kill_process_group(child.pid, Signal::KILL);
        let _ = sys::signal::send(child.pidfd.as_fd(), 9);
    }
    let status = wait(&child.pidfd).map_err(Reason::Errno)?;
    if let Some(lived) = manner.lived {
        lived(hook, child.pid, (start, now()));
    }
    let reason = match (timed_out, status.exit_status(), status.terminating_signal()) {
        (true, ..) => Reason::Timeout(hook.timeout.unwrap_or(0)),
        (_, Some(0), _) => return Ok(()),
        (_, Some(status), _) => Reason::Status(status),
        (_, _, signal) => Reason::Signal(signal.unwrap_or(0)),
    };
    failure.length = rustix::io::pread(&output, &mut failure.output, 0).unwrap_or(0);
    Err(match reason {
        Reason::Status(status) if failure.output().starts_with(NOT_EXECUTED) => {
            errno_of(status).map_or(reason, Reason::NotExecuted)
        }
        reason => reason,
    })
}

/// Returns the exit status of a hook's process that could not execute the hook. [`errno_of`] is its inverse.
fn status_of(errno: Errno) -> i32 {
    errno.raw_os_error().clamp(1, 125) | 0x80
}

fn errno_of(status: i32) -> Option<Errno> {
    (status & 0x80 != 0).then(|| Errno::from_raw_os_error(status & 0x7f))
}

/// Starts a hook's program, with `input` as standard input, and `output` as standard output and standard error.
///
/// # Errors
/// Those of clone3(2).
pub fn spawn(
    hook: &Hook<'_>,
    input: &OwnedFd,
    output: &OwnedFd,
    manner: &Manner<'_>,
) -> Result<Child, Errno> {
    sys::signal::reset_sigchld();
    match clone3(CloneFlags::empty(), None)? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => {
            let errno = become_hook(hook, input, output, manner);
            sys::start::exit(status_of(errno))
        }
    }
}

/// Executes the hook, in the child. Returns only on failure; the hook's output then contains the error, unless the
/// standard streams could not be redirected.
fn become_hook(hook: &Hook<'_>, input: &OwnedFd, output: &OwnedFd, manner: &Manner<'_>) -> Errno {
    let _ = sys::signal::set_mask(sys::signal::SignalSet::EMPTY);
    if hook.timeout.is_some() {
        // A group of its own, which is killed as a whole when the time is over.
        let _ = setpgid(None, None);
    }
    if let Some(directory) = manner.directory {
        let _ = rustix::process::chdir(directory);
    }
    let redirected = rustix::stdio::dup2_stdin(input)
        .and_then(|()| rustix::stdio::dup2_stdout(output))
        .and_then(|()| rustix::stdio::dup2_stderr(output))
        .and_then(|()| sys::exec::cloexec_from(3));
    if let Err(errno) = redirected {
        return errno;
    }
    if let Some(Limit { resource, soft, hard }) = manner.limit {
        let _ = setrlimit(resource, Rlimit { current: soft, maximum: hard });
    }
    if let Some(confine) = manner.confine
        && let Err(failure) = confine()
    {
        say(hook, &[failure.text(), b": "], failure.errno);
        return failure.errno;
    }
    let home = manner.home.filter(|_| hook.is_of_process);
    let errno = sys::exec::execve(hook.path, &hook.argv, &hook.envp, home);
    say(hook, &[], errno);
    errno
}

/// Writes to stderr why the hook could not be executed, in the form that [`run`] recognizes: [`NOT_EXECUTED`], the
/// path, the operation if there is one, the errno's text.
fn say(hook: &Hook<'_>, operation: &[&[u8]], errno: Errno) {
    let head = [NOT_EXECUTED, hook.path.to_bytes(), b": "];
    for part in head.iter().chain(operation).chain(&[sys::errno::describe(errno).as_bytes()]) {
        let _ = write_all(sys::stdio::stderr(), part);
    }
}

/// Returns whether a process exits within `seconds`.
pub fn exits_within(pidfd: &OwnedFd, seconds: u32) -> bool {
    let deadline = now() + u64::from(seconds) * 1_000_000_000;
    loop {
        let left = deadline.saturating_sub(now());
        let timeout = Timespec::try_from(Duration::from_nanos(left)).ok();
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            _ => return true,
        }
    }
}

/// Waits for a child's exit.
///
/// # Errors
/// ECHILD if the process is not a child, or was already waited for.
pub fn wait(pidfd: &OwnedFd) -> Result<WaitIdStatus, Errno> {
    loop {
        match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => return Err(Errno::CHILD),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
