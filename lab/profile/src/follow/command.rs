//! The command to follow.

use crate::follow::Error;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use sys::Context;
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
    #[must_use]
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
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.env.retain(|(other, _)| *other != name);
        self.env.push((name, value.into()));
        self
    }

    /// Clears the environment.
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.env.clear();
        self
    }

    /// Runs the command in the directory `dir`.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// Uses `file` as standard input.
    #[must_use]
    pub fn stdin(mut self, file: impl Into<OwnedFd>) -> Self {
        self.stdio[0] = Some(file.into());
        self
    }

    /// Uses `file` as standard output.
    #[must_use]
    pub fn stdout(mut self, file: impl Into<OwnedFd>) -> Self {
        self.stdio[1] = Some(file.into());
        self
    }

    /// Uses `file` as standard error.
    #[must_use]
    pub fn stderr(mut self, file: impl Into<OwnedFd>) -> Self {
        self.stdio[2] = Some(file.into());
        self
    }

    /// Prepares the arguments of execve(2).
    pub(crate) fn prepare(&self) -> Result<Prepared, Error> {
        let argv = std::iter::once(self.program.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|arg| CString::new(arg.as_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let envp = self
            .env
            .iter()
            .map(|(name, value)| {
                let mut entry = name.clone();
                entry.push("=");
                entry.push(value);
                CString::new(entry.into_vec())
            })
            .collect::<Result<Vec<_>, _>>()?;
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| {
            let errno = sys::Errno::from_io_error(&error).unwrap_or(sys::Errno::IO);
            sys::Error::new("open", "/dev/null", errno)
        })?;
        Ok(Prepared {
            path: CString::new(self.program.as_os_str().as_bytes())?,
            dir: CString::new(self.dir.as_os_str().as_bytes())?,
            argv: StringArray::leaked(argv),
            envp: StringArray::leaked(envp),
            null,
        })
    }

    fn stdio<'a>(&'a self, null: &'a File) -> [BorrowedFd<'a>; 3] {
        self.stdio.each_ref().map(|file| file.as_ref().map_or(null.as_fd(), AsFd::as_fd))
    }
}

/// The arguments of execve(2).
pub(crate) struct Prepared {
    path: CString,
    dir: CString,
    argv: StringArray<'static>,
    envp: StringArray<'static>,
    null: File,
}

impl Prepared {
    /// Creates the child, calls `ready` with its pid, and then makes the child execute the program.
    pub(crate) fn spawn(
        &self,
        command: &Command,
        fixed_layout: bool,
        ready: impl FnOnce(&sys::clone::Child) -> Result<(), Error>,
    ) -> Result<sys::clone::Child, Error> {
        let program = Program {
            path: &self.path,
            argv: &self.argv,
            envp: &self.envp,
            dir: &self.dir,
            stdio: command.stdio(&self.null),
            fixed_layout,
        };
        let (gate, ours) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context("pipe2", "")?;
        let child = sys::ptrace::spawn(&program, gate.as_fd(), ours.as_fd())
            .context("clone3", command.program.display())?;
        ready(&child)?;
        rustix::io::write(&ours, b"!").context("write", "the gate of a new process")?;
        Ok(child)
    }
}
