//! The command to follow.

use crate::follow::Error;
use rustix::fd::{AsFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use sys::Context;
use sys::clone::Child;
use sys::exec::StringArray;
use sys::ptrace::Program;

/// A command to be followed.
///
/// Standard input, output and error are /dev/null unless files are given. Use files rather than pipes: a container that
/// outlives the command keeps its streams open, so a reader of a pipe would wait for the container.
#[derive(Debug)]
pub struct Command {
    pub(crate) program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: PathBuf,
    stdio: [Option<OwnedFd>; 3],
}

impl Command {
    /// Returns a command that runs `program`, a path (PATH is not searched), with this process's environment and
    /// directory.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: std::env::vars_os().collect(),
            dir: PathBuf::from("."),
            stdio: [None, None, None],
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.env.retain(|(other, _)| *other != name);
        self.env.push((name, value.into()));
        self
    }

    /// Clears the environment.
    pub fn env_clear(mut self) -> Self {
        self.env.clear();
        self
    }

    /// Runs the command in the directory `dir`.
    pub fn dir(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// Uses `file` as standard input.
    pub fn stdin(self, file: impl Into<OwnedFd>) -> Self {
        self.stream(0, file.into())
    }

    /// Uses `file` as standard output.
    pub fn stdout(self, file: impl Into<OwnedFd>) -> Self {
        self.stream(1, file.into())
    }

    /// Uses `file` as standard error.
    pub fn stderr(self, file: impl Into<OwnedFd>) -> Self {
        self.stream(2, file.into())
    }

    fn stream(mut self, number: usize, file: OwnedFd) -> Self {
        self.stdio[number] = Some(file);
        self
    }

    /// Creates the child, calls `ready` with it, and then makes the child execute the program.
    pub(crate) fn spawn(
        &self,
        fixed_layout: bool,
        ready: impl FnOnce(&Child) -> Result<(), Error>,
    ) -> Result<Child, Error> {
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let args = self.args.iter().map(OsString::as_os_str);
        let argv = [self.program.as_os_str()].into_iter().chain(args).map(text);
        let envp = self
            .env
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let null = File::options().read(true).write(true).open("/dev/null").map_err(|error| {
            let errno = sys::Errno::from_io_error(&error).unwrap_or(sys::Errno::IO);
            sys::Error::new("open", "/dev/null", errno)
        })?;
        let program = Program {
            path: &text(self.program.as_os_str())?,
            argv: &StringArray::leaked(argv.collect::<Result<_, _>>()?),
            envp: &StringArray::leaked(envp.collect::<Result<_, _>>()?),
            dir: &text(self.dir.as_os_str())?,
            stdio: self
                .stdio
                .each_ref()
                .map(|file| file.as_ref().map_or(null.as_fd(), AsFd::as_fd)),
            fixed_layout,
        };
        let (gate, ours) = pipe_with(PipeFlags::CLOEXEC).context("pipe2", "")?;
        let child = sys::ptrace::spawn(&program, gate.as_fd(), ours.as_fd())
            .context("clone3", self.program.display())?;
        ready(&child)?;
        rustix::io::write(&ours, b"!").context("write", "the gate of a new process")?;
        Ok(child)
    }
}
