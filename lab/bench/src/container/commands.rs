//! Commands of a container that not every experiment uses: those that a caller polls while many run; templates, and
//! containers whose programs they fork; checkpoint and restore.

use super::*;
use std::os::unix::process::CommandExt;
use sys::rusage::End;

impl Container<'_> {
    /// Starts `run --detach`, in a process group of its own. `stdin` and `stdout` are those of the container's program.
    /// Call [`Self::started_by`] when the command ends.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_run(&self, stdin: Stdio, stdout: Stdio) -> Result<Child, Error> {
        let mut command = self.starting("run", &["--detach", "--pid-file", &self.pid_file()]);
        command.stdin(stdin).stdout(stdout);
        self.spawn("run", command)
    }

    /// Runs `run --detach`.
    ///
    /// # Errors
    /// The runtime's failure, or a pid file without a pid.
    pub fn run_detached(&self) -> Result<Pid, Error> {
        let command = self.starting("run", &["--detach", "--pid-file", &self.pid_file()]);
        self.execute("run", command)?;
        self.read_pid("run")
    }

    /// Leaves the removal of the container, whose program has been waited for, to the stand.
    pub fn leave_to_stand(&self) {
        self.made.set(false);
    }

    /// Returns the command `run` in the foreground, to be started in a process group of its own. `stdin` and `stdout`
    /// are those of the container's program. Call [`Self::removed_by`] when the command ends.
    ///
    /// # Errors
    /// Those of creating a file.
    pub fn attached_run(&self, stdin: Stdio, stdout: Stdio) -> Result<Command, Error> {
        let errors = File::create(self.errors());
        let errors = errors.map_err(|error| self.fault("run", Failure::Spawn(error)))?;
        let mut command = self.starting("run", &[]);
        command.stdin(stdin).stdout(stdout).stderr(errors).process_group(0);
        Ok(command)
    }

    /// Records the end of the command `step` after which the container is gone: `delete`, or `run` in the foreground.
    ///
    /// # Errors
    /// The runtime's failure, or the program's exit status if it is not 0.
    pub fn removed_by(&self, step: &'static str, end: End) -> Result<(), Error> {
        self.check(step, end)?;
        self.made.set(false);
        Ok(())
    }

    /// Returns the pid of the program started by `step`, `run` or `restore` with `--detach`, that ended with `end`.
    ///
    /// # Errors
    /// The runtime's failure, or a pid file without a pid.
    pub fn started_by(&self, step: &'static str, end: End) -> Result<Pid, Error> {
        self.check(step, end)?;
        self.read_pid(step)
    }

    /// Reads the pid file that a command has written.
    pub(super) fn read_pid(&self, step: &'static str) -> Result<Pid, Error> {
        let text = fs::read_to_string(self.pid_file()).unwrap_or_default();
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        self.pid.set(pid);
        pid.ok_or_else(|| self.fault(step, Failure::Left(format!("pid file: {text:?}"))))
    }

    /// Records that the program has been waited for.
    pub fn ended(&self) {
        self.pid.set(None);
    }

    /// Starts `delete`, like [`Self::begin_run`]. Call [`Self::removed_by`] when the command ends.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_delete(&self) -> Result<Child, Error> {
        self.spawn("delete", self.command("delete", &[&self.id]))
    }

    pub(super) fn spawn(&self, step: &'static str, mut command: Command) -> Result<Child, Error> {
        let failed = |error| self.fault(step, Failure::Spawn(error));
        let errors = File::create(self.errors()).map_err(failed)?;
        command.stderr(errors).process_group(0).spawn().map_err(failed)
    }

    pub(super) fn check(&self, step: &'static str, end: End) -> Result<(), Error> {
        match end {
            End::Exited(0) => self.check_fork().map_err(|failure| self.fault(step, failure)),
            end => Err(self.fault(step, Failure::Ended(end))),
        }
    }

    pub(super) fn pid_file(&self) -> String {
        self.bundle.join("pid").display().to_string()
    }
}

/// The end of dayfly's warning that a template has not forked a program.
const EXECUTED: &str = "the program is executed instead";

impl<'a> Container<'a> {
    /// Makes a container with a changed configuration, whose program a template is going to fork: the one that
    /// [`Self::fork_from`] names. The container's cgroup is beside the template's, where the template can fork into it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn forked(
        stand: &'a Stand,
        entrant: &'a Entrant,
        change: impl FnOnce(&mut Value),
    ) -> Result<Self, Error> {
        Self::changed(stand, entrant, &[], |config| {
            if let Some(linux) = config["linux"].as_object_mut() {
                linux.remove("cgroupsPath");
            }
            change(config);
        })
    }

    /// Lets the template `name` fork the program of each further start. A start whose program is executed instead
    /// counts as failed.
    pub fn fork_from(&mut self, name: &str) {
        self.template = Some(name.to_owned());
    }

    /// Runs `template create`, which makes a template from the container's bundle, and waits until the template serves
    /// requests. The container's id is the template's name.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn become_template(&self) -> Result<Sample, Error> {
        self.become_template_by(None)
    }

    /// The same with the option `--save` or `--from`, and its directory.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn become_template_by(&self, disk: Option<(&str, &Path)>) -> Result<Sample, Error> {
        self.made.set(true);
        let mut command = self.command("template", &["create", "--bundle"]);
        command.arg(&self.bundle);
        if let Some((option, images)) = disk {
            command.arg(option).arg(images);
        }
        command.arg(&self.id);
        self.execute("template create", command)
    }

    /// Returns the pid of the container's first process, as `state` prints it. For a template, this is its reaper.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn first_process(&self) -> Result<i32, Error> {
        let mut command = self.command("state", &[&self.id]);
        let state = process::read(command.stderr(Stdio::null()), self.stand.deadline);
        let state = state.map_err(|failure| self.fault("state", failure))?;
        let pid = serde_json::from_str(&state).ok().and_then(|state: Value| state["pid"].as_i64());
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        pid.ok_or_else(|| self.fault("state", Failure::Left(format!("no pid: {state:?}"))))
    }

    /// Checks that a template has forked the program, if one was to fork it.
    pub(super) fn check_fork(&self) -> Result<(), Failure> {
        if self.template.is_none() {
            return Ok(());
        }
        let said = fs::read(self.errors()).unwrap_or_default();
        match String::from_utf8_lossy(&said).contains(EXECUTED) {
            true => Err(Failure::Left("no template has forked the program".to_owned())),
            false => Ok(()),
        }
    }
}

/// The option that prevents criu from saving cgroups. In a hierarchy in which the container has no
/// cgroup of its own, criu would save the cgroups of the whole host, and a restore by runc would
/// create those that have disappeared by then.
const CGROUPS: &str = "--manage-cgroups-mode=ignore";

impl Container<'_> {
    /// Runs `checkpoint`, which ends the container's processes.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn checkpoint(&self, images: &Path) -> Result<Sample, Error> {
        let record: &[&str] = if self.entrant.runtime.is_dayfly() { &["--record"] } else { &[] };
        let mut command = self.command("checkpoint", &[&[CGROUPS], record].concat());
        command.arg("--image-path").arg(images).arg(&self.id);
        self.execute("checkpoint", command)
    }

    /// Starts `restore --detach` without waiting for its end, with these standard streams. criu's logs and statistics are
    /// written to `work`. Call
    /// [`Self::started_by`] when the command ends.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_restore(
        &self,
        (images, work): (&Path, &Path),
        eagerly: bool,
        streams: Option<(Stdio, Stdio)>,
    ) -> Result<Child, Error> {
        self.made.set(true);
        let pid_file = self.pid_file();
        let mut options = vec![CGROUPS, "--detach", "--pid-file", &pid_file];
        if eagerly && self.entrant.runtime.is_dayfly() {
            options.push("--eager");
        }
        let mut command = self.command("restore", &options);
        command.arg("--image-path").arg(images).arg("--work-path").arg(work);
        command.arg("--bundle").arg(&self.bundle).arg(&self.id);
        if let Some((stdin, stdout)) = streams {
            command.stdin(stdin).stdout(stdout);
        }
        self.spawn("restore", command)
    }

    /// Removes the container by force, but keeps its bundle, from which the container can be made again.
    pub fn discard(&self) {
        self.remove();
        self.made.set(false);
    }
}
