//! One call of the runtime, and its exit status and output.

use crate::filtered::Refused;
use host::follow::{self, End, Event, Listener, Mode};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The first line that a test build prints to standard error (tests/README.md). [`Outcome::stderr`] omits this line, so
/// that cases pass with a test build as with any other.
pub const FOR_TESTS: &str = "warning: this dayfly is a test build, with fault injection, \
                             disabled defences: not for production\n";

/// A call of the runtime, before it is started.
pub struct Call {
    command: Command,
    line: String,
    out: PathBuf,
    err: PathBuf,
    log: PathBuf,
    stdin: Option<File>,
    deadline: Duration,
    refused: Vec<Refused>,
}

impl Call {
    /// Returns the call `program ARGS…`; its output goes to files named after `stem`, since a container that outlives
    /// the call would keep a pipe open.
    pub(crate) fn new(program: &Path, stem: &Path, log: &Path, args: &[OsString]) -> Self {
        let mut command = Command::new(program);
        command.args(args);
        let line = std::iter::once(program.as_os_str())
            .chain(args.iter().map(OsString::as_os_str))
            .map(OsStr::to_string_lossy)
            .collect::<Vec<_>>()
            .join(" ");
        Self {
            command,
            line,
            out: stem.with_extension("out"),
            err: stem.with_extension("err"),
            log: log.to_owned(),
            stdin: None,
            deadline: crate::wait::patience(),
            refused: Refused::by_default().into_iter().cloned().collect(),
        }
    }

    /// Runs the call in a mount namespace of its own in which all mounts are shared, as they are where systemd runs.
    /// Everything that sets the environment comes after this.
    #[must_use]
    pub fn on_shared_mounts(mut self) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "shared"]).arg(self.command.get_program());
        command.args(self.command.get_args());
        self.command = command;
        self
    }

    /// Starts the runtime in a process group of its own, whose id is the runtime's pid.
    #[must_use]
    pub fn as_group(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// Sets standard input to `file` (default: /dev/null).
    #[must_use]
    pub fn stdin(mut self, file: File) -> Self {
        self.stdin = Some(file);
        self
    }

    /// Sets an environment variable of the runtime.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets another deadline.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the call under a seccomp filter that makes the system call `call` fail with `errno`.
    #[must_use]
    pub fn refused(mut self, call: &str, errno: rustix::io::Errno) -> Self {
        self.refused.push(Refused::new(call, errno));
        self
    }

    /// Runs the call in `dir`.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Starts the call and returns while it runs.
    ///
    /// # Panics
    /// When the program can't be executed.
    #[track_caller]
    #[must_use]
    pub fn spawn(mut self) -> Running {
        let out = File::create(&self.out).expect("create output file");
        let err = File::create(&self.err).expect("create error file");
        let stdin = self.stdin.take().map_or_else(Stdio::null, Stdio::from);
        self.command.stdin(stdin).stdout(out).stderr(err);
        let begun = crate::ended::begin();
        let spawned = match self.refused.as_slice() {
            [] => self.command.spawn(),
            list => Refused::spawn(list, &mut self.command),
        };
        drop(begun);
        let child = match spawned {
            Ok(child) => child,
            Err(error) => panic!("execute {}: {error}", self.line),
        };
        Running { child, call: self }
    }

    /// Runs the call and waits for its end.
    ///
    /// # Panics
    /// When the call does not end in time, see [`crate::wait::patience`].
    #[track_caller]
    #[must_use]
    pub fn run(self) -> Outcome {
        self.spawn().wait()
    }

    /// Runs the call and waits for its end; `tell` is called at every system call, and may interfere with the process.
    ///
    /// # Panics
    /// As [`Call::run`].
    #[track_caller]
    #[must_use]
    pub fn follow(self, mut tell: &mut (dyn FnMut(Pid, Event) + Send)) -> Outcome {
        self.followed_by(&mut tell)
    }

    /// Runs the call and waits for its end; `listener` is notified of the system calls it selects, and may interfere
    /// with the process.
    ///
    /// # Panics
    /// As [`Call::run`].
    #[track_caller]
    #[must_use]
    pub fn followed_by(self, listener: &mut dyn Listener) -> Outcome {
        let create = |path| File::create(path).expect("create output file");
        let command = follow::Command::new(self.command.get_program());
        let command = command.args(self.command.get_args());
        let command = command.stdout(create(&self.out)).stderr(create(&self.err));
        let variables = self.command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let command = variables.fold(command, |command, (name, value)| command.env(name, value));
        drop(crate::ended::begin());
        let end = match follow::follow(&command, Mode::Syscalls, self.deadline, listener) {
            Ok(end) => end,
            Err(error) => panic!("{error}: {}\nstderr: {}", self.line, read(&self.err)),
        };
        let status = match end {
            End::Exited(code) => code << 8,
            End::Killed(signal) => signal,
            other => panic!("{other:?}: {}", self.line),
        };
        self.outcome(ExitStatus::from_raw(status))
    }

    fn outcome(self, status: ExitStatus) -> Outcome {
        Outcome {
            line: self.line,
            status,
            stdout: read(&self.out),
            stderr: read(&self.err).replace(FOR_TESTS, ""),
            out: self.out,
            err: self.err,
            log: self.log,
        }
    }
}

/// A running call.
pub struct Running {
    child: Child,
    call: Call,
}

impl Running {
    /// Returns the runtime's pid.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends the runtime a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::kill_process(self.pid(), signal);
    }

    /// Returns whether the runtime has exited.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        crate::leak::is_zombie(self.pid().as_raw_nonzero().get())
    }

    /// Waits until two checks in a row find the main thread asleep in the same system call, which means that it waits
    /// for something.
    ///
    /// # Panics
    /// After [`patience`](crate::wait::patience), or when the runtime ends.
    #[track_caller]
    pub fn until_it_waits(&self) {
        let pid = self.pid().as_raw_nonzero().get();
        let mut last = String::new();
        crate::wait::until_true("the call to wait for something", || {
            assert!(!self.has_ended(), "ended: {}", self.call.line);
            // The call's number, its arguments and the stack pointer; `running` if the thread is not in a call.
            let now = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            let sleeps = crate::leak::state(pid) == Some('S');
            let same = sleeps && !now.is_empty() && now == last;
            last = now;
            same
        });
    }

    /// Returns the output of the runtime so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.call.out)
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When the deadline passes; the runtime is killed then.
    #[track_caller]
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let Some(status) = wait_within(&mut self.child, self.call.deadline) else {
            let _ = self.child.kill();
            let _ = self.child.wait();
            panic!(
                "no end after {:?}: {}\nstderr: {}",
                self.call.deadline,
                self.call.line,
                read(&self.call.err)
            );
        };
        self.call.outcome(status)
    }
}

/// Returns the child's status, or `None` if `deadline` passes first.
pub fn wait_within(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    if let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        let limit = deadline.try_into().ok();
        if matches!(poll(&mut fds, limit.as_ref()), Ok(0)) {
            return None;
        }
    }
    child.wait().ok()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The result of a call.
#[derive(Debug)]
pub struct Outcome {
    line: String,
    status: ExitStatus,
    /// The content of standard output at the end of the call.
    pub stdout: String,
    /// The content of standard error at the end of the call.
    pub stderr: String,
    out: PathBuf,
    err: PathBuf,
    log: PathBuf,
}

impl Outcome {
    /// Returns the exit code, or 128 + n if signal n killed the runtime itself.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Returns whether a signal killed the runtime itself.
    #[must_use]
    pub fn died_of_signal(&self) -> bool {
        self.status.signal().is_some()
    }

    /// Asserts success, and an empty standard error.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert!(self.code() == code, "exit {} instead of {code}: {self}", self.code());
        self
    }

    /// Asserts that the call failed with status 1, and that `text` is in standard error and in the last error of the
    /// JSON log.
    #[track_caller]
    pub fn fails(self, text: &str) -> Self {
        self.fails_as(1, text)
    }

    /// Asserts the same as [`Outcome::fails`], but for a tool, which has no log.
    #[track_caller]
    pub fn fails_without_log(self, text: &str) -> Self {
        let outcome = self.exits(1);
        assert!(outcome.stderr.contains(text), "standard error lacks {text:?}: {outcome}");
        outcome
    }

    /// Asserts the same as [`Outcome::fails`], but with this exit code.
    #[track_caller]
    pub fn fails_as(self, code: i32, text: &str) -> Self {
        assert!(self.code() == code, "exit {} instead of {code}: {self}", self.code());
        assert!(self.stderr.contains(text), "standard error lacks {text:?}: {self}");
        let logged = self.logged();
        let last = logged.last().map_or("", String::as_str);
        assert!(last.contains(text), "log lacks {text:?}: {logged:?}\n{self}");
        self
    }

    /// Asserts the same as [`Outcome::fails_as`], and that there is exactly one message, the same on standard error and
    /// in the log.
    ///
    /// # Panics
    /// When there are several messages, or none.
    #[track_caller]
    pub fn fails_once(self, code: i32, text: &str) -> Self {
        let failed = self.fails_as(code, text);
        let logged = failed.logged();
        assert!(logged.len() == 1, "{} messages in the log: {logged:?}\n{failed}", logged.len());
        let (message, shown) = (logged.concat(), &failed.stderr);
        assert!(*shown == format!("error: {message}\n"), "not what the log has: {failed}");
        failed
    }

    /// Makes the assertions read the log `log` instead of the call's own.
    #[must_use]
    pub fn with_log(mut self, log: &Path) -> Self {
        log.clone_into(&mut self.log);
        self
    }

    /// Returns the messages of the errors in the JSON log.
    fn logged(&self) -> Vec<String> {
        let log = read(&self.log);
        let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let errors = entries.filter(|entry| entry["level"] == "error");
        errors.map(|entry| entry["msg"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Returns everything that the container has printed so far. After `create` and `--detach` the container may print
    /// more than [`Outcome::stdout`].
    #[must_use]
    pub fn output(&self) -> String {
        read(&self.out)
    }

    /// Returns the content of the runtime's log.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// Waits until the container has printed `text`.
    #[track_caller]
    pub fn wait_output(&self, text: &str) -> String {
        crate::wait::until(&format!("{text:?} printed by {}", self.line), || {
            Some(self.output()).filter(|output| output.contains(text))
        })
    }

    /// Returns all of standard error, including [`FOR_TESTS`].
    #[must_use]
    pub fn raw_stderr(&self) -> String {
        read(&self.err)
    }

    /// Returns the lines of standard output.
    #[must_use]
    pub fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\n  {}\n  stdout: {:?}\n  stderr: {:?}",
            self.line, self.status, self.stdout, self.stderr
        )
    }
}

/// Returns whether the run uses all fast paths of a start; `DAYFLY_WITHOUT` in the suite's own environment disables
/// some.
#[must_use]
pub fn uses_every_fast_path() -> bool {
    std::env::var_os("DAYFLY_WITHOUT").is_none()
}
