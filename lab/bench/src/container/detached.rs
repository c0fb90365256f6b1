//! Starts a container's commands without waiting for them, for a caller that polls many running commands.

use super::{Container, Fault};
use crate::process::Failure;
use rustix::process::Pid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use sys::rusage::End;

impl Container<'_> {
    /// Starts `run --detach`, in a process group of its own. `stdin` and `stdout` are those of the container's program.
    /// Call [`Self::started`] when the command ends.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_run(&self, stdin: Stdio, stdout: Stdio) -> Result<Child, Fault> {
        let file = self.pid_file();
        let options = ["--detach".as_ref(), "--pid-file".as_ref(), file.as_os_str()];
        self.spawn("run", self.run_with(&options, stdin, stdout))
    }

    /// Returns the command `run` in the foreground, to be started in a process group of its own. `stdin` and `stdout`
    /// are those of the container's program. Call [`Self::gone`] when the command ends.
    ///
    /// # Errors
    /// Those of creating a file.
    pub fn attached_run(&self, stdin: Stdio, stdout: Stdio) -> Result<Command, Fault> {
        let mut command = self.run_with(&[], stdin, stdout);
        let errors = File::create(self.errors());
        command.stderr(errors.map_err(|error| self.fault("run", Failure::Spawn(error)))?);
        command.process_group(0);
        Ok(command)
    }

    /// Records the end of a `run` in the foreground, after which the container is gone.
    ///
    /// # Errors
    /// The runtime's failure, or the program's exit status if it is not 0.
    pub fn gone(&self, end: End) -> Result<(), Fault> {
        self.check("run", end)?;
        self.made.set(false);
        Ok(())
    }

    fn run_with(&self, options: &[&OsStr], stdin: Stdio, stdout: Stdio) -> Command {
        self.made.set(true);
        let mut arguments = self.with_bundle("run");
        arguments.splice(1..1, options.iter().copied());
        let mut command = self.command(&arguments);
        command.stdin(stdin).stdout(stdout);
        command
    }

    /// Returns the pid of the program started by a `run --detach` that ended with `end`.
    ///
    /// # Errors
    /// The runtime's failure, or a pid file without a pid.
    pub fn started(&self, end: End) -> Result<Pid, Fault> {
        self.check("run", end)?;
        self.read_pid("run")
    }

    /// Reads the pid file that a command has written.
    pub(super) fn read_pid(&self, step: &'static str) -> Result<Pid, Fault> {
        let text = fs::read_to_string(self.pid_file()).unwrap_or_default();
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        self.pid.set(pid);
        pid.ok_or_else(|| self.fault(step, Failure::Left(format!("pid file: {text:?}"))))
    }

    /// Records that the program has been waited for.
    pub fn ended(&self) {
        self.pid.set(None);
    }

    /// Starts `delete`, like [`Self::begin_run`]. Call [`Self::deleted`] when the command ends.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_delete(&self) -> Result<Child, Fault> {
        self.spawn("delete", self.command(&["delete".as_ref(), self.id.as_ref()]))
    }

    /// Records a `delete` that ended with `end`: the container can then be run again.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn deleted(&self, end: End) -> Result<(), Fault> {
        self.check("delete", end)?;
        self.made.set(false);
        Ok(())
    }

    /// Returns a fault for a timeout or another failure.
    pub(crate) fn wrong(&self, step: &'static str, failure: Failure) -> Fault {
        self.fault(step, failure)
    }

    pub(super) fn spawn(&self, step: &'static str, mut command: Command) -> Result<Child, Fault> {
        let failed = |error| self.fault(step, Failure::Spawn(error));
        let errors = File::create(self.errors()).map_err(failed)?;
        command.stderr(errors).process_group(0).spawn().map_err(failed)
    }

    pub(super) fn check(&self, step: &'static str, end: End) -> Result<(), Fault> {
        match end {
            End::Exited(0) => self.check_fork().map_err(|failure| self.fault(step, failure)),
            end => Err(self.fault(step, Failure::Ended(end))),
        }
    }

    pub(super) fn pid_file(&self) -> std::path::PathBuf {
        self.bundle.join("pid")
    }
}
