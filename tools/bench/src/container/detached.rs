//! A container whose commands nobody waits for: who has many at a time looks at each when it is done.

use super::{Container, Fault};
use crate::process::Failure;
use rustix::process::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use sys::rusage::End;

impl Container<'_> {
    /// Begins `run --detach`, in a process group of its own. The program has these streams. [`Self::started`] is for its
    /// end.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_run(&self, stdin: Stdio, stdout: Stdio) -> Result<Child, Fault> {
        self.made.set(true);
        let file = self.pid_file();
        let mut arguments = self.with_bundle("run");
        arguments.splice(1..1, ["--detach".as_ref(), "--pid-file".as_ref(), file.as_os_str()]);
        let mut command = self.command(&arguments);
        command.stdin(stdin).stdout(stdout);
        self.spawn("run", command)
    }

    /// The program of a `run --detach` that ended so.
    ///
    /// # Errors
    /// The runtime's, or no pid in the file that it was given.
    pub fn started(&self, end: End) -> Result<Pid, Fault> {
        self.check("run", end)?;
        let text = fs::read_to_string(self.pid_file()).unwrap_or_default();
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        self.pid.set(pid);
        pid.ok_or_else(|| self.fault("run", Failure::Left(format!("pid file: {text:?}"))))
    }

    /// The program has been waited for.
    pub fn ended(&self) {
        self.pid.set(None);
    }

    /// Begins `delete`, as [`Self::begin_run`]. [`Self::deleted`] is for its end.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_delete(&self) -> Result<Child, Fault> {
        self.spawn("delete", self.command(&["delete".as_ref(), self.id.as_ref()]))
    }

    /// Takes note of a `delete` that ended so: the same container can be run again.
    ///
    /// # Errors
    /// The runtime's.
    pub fn deleted(&self, end: End) -> Result<(), Fault> {
        self.check("delete", end)?;
        self.made.set(false);
        Ok(())
    }

    /// Why it took too long, or what else is not as it should be.
    pub(crate) fn wrong(&self, step: &'static str, failure: Failure) -> Fault {
        self.fault(step, failure)
    }

    fn spawn(
        &self,
        step: &'static str,
        mut command: std::process::Command,
    ) -> Result<Child, Fault> {
        let failed = |error| self.fault(step, Failure::Spawn(error));
        let errors = File::create(self.errors()).map_err(failed)?;
        command.stderr(errors).process_group(0).spawn().map_err(failed)
    }

    fn check(&self, step: &'static str, end: End) -> Result<(), Fault> {
        match end {
            End::Exited(0) => Ok(()),
            end => Err(self.fault(step, Failure::Ended(end))),
        }
    }

    fn pid_file(&self) -> std::path::PathBuf {
        self.bundle.join("pid")
    }
}
