//! One container of one runtime, and the commands that are timed.

mod commands;

use crate::base::*;
use crate::engine::Image;
use crate::process::{self, Failure, Sample};
use crate::stand::{Entrant, Stand};
use crate::trace::inside;
use crate::trace::outside::{self, Observed};
use crate::weigh;
use crate::weight::Way;
use std::cell::{Cell, RefCell};

/// The factor by which the deadline of a traced command is extended.
const FOLLOWED: u32 = 10;

/// A container, which may not exist yet. When dropped, it is removed with its bundle, whatever its state; this must
/// happen on the main thread, while no other thread has children (see [`process::run_and_reap`]).
#[derive(Debug)]
pub struct Container<'a> {
    stand: &'a Stand,
    entrant: &'a Entrant,
    /// The id of the container.
    pub id: String,
    bundle: PathBuf,
    /// The template that forks the container's program, if any.
    template: Option<String>,
    /// Whether a runtime was asked to make the container, and has not yet removed the container successfully.
    made: Cell<bool>,
    /// The pid of the container's program, from the container's creation until the program has been waited for.
    pid: Cell<Option<Pid>>,
    /// The way in which the container's commands are executed.
    way: Cell<Way>,
    /// The time lines of commands, if `way` records time lines.
    observed: RefCell<Vec<Observed>>,
}

impl<'a> Container<'a> {
    /// Makes a container of `entrant` that runs `program`, or the configuration's program if `program` is empty. This
    /// writes the bundle, and is not timed.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub fn new(stand: &'a Stand, entrant: &'a Entrant, program: &[&str]) -> Result<Self, Error> {
        Self::changed(stand, entrant, program, |_| {})
    }

    /// Makes a container with a changed configuration.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn changed(
        stand: &'a Stand,
        entrant: &'a Entrant,
        program: &[&str],
        change: impl FnOnce(&mut Value),
    ) -> Result<Self, Error> {
        let (id, bundle) = stand.write_bundle(program, |config| {
            if let Some(image) = &entrant.image {
                image.configure(config);
            }
            change(config);
        })?;
        Ok(Self {
            stand,
            entrant,
            id,
            bundle,
            template: None,
            made: Cell::new(false),
            pid: Cell::new(None),
            way: Cell::new(Way::Timed),
            observed: RefCell::new(Vec::new()),
        })
    }

    /// Sets how all further commands are executed.
    pub fn execute_by(&self, way: Way) {
        self.way.set(way);
    }

    /// Returns the time lines recorded so far.
    pub fn take_observed(&self) -> Vec<Observed> {
        self.observed.take()
    }

    /// Runs `run` in the foreground, until the container is gone. The sample's usage includes the container's
    /// processes, since the runtime waits for them. If the harness mounts the root filesystem from layers for this
    /// entrant, the sample's time includes the mount and the unmount.
    ///
    /// # Errors
    /// The runtime's failure, or the program's exit status if it is not 0; the root filesystem can't be mounted.
    pub fn run(&self) -> Result<Sample, Error> {
        self.run_and_tell().map(|(sample, _)| sample)
    }

    /// Runs `run` like [`Self::run`], and also returns the part of the time that the harness has spent on mounts.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_and_tell(&self) -> Result<(Sample, Duration), Error> {
        let before = self.around("mount", |image| image.mount(&self.bundle))?;
        let sample = self.execute("run", self.starting("run", &[]))?;
        self.made.set(false);
        let after = self.around("unmount", |_| Image::unmount(&self.bundle))?;
        let around = before + after;
        Ok((Sample { wall: sample.wall + around, ..sample }, around))
    }

    /// Does an engine's work before or after `run`, and returns its duration. Only an entrant with an image needs such
    /// work; for other entrants, the duration is 0.
    fn around(
        &self,
        step: &'static str,
        work: impl FnOnce(&Image) -> Result<(), Error>,
    ) -> Result<Duration, Error> {
        let Some(image) = &self.entrant.image else { return Ok(Duration::ZERO) };
        let start = Instant::now();
        work(image).map_err(|error| self.fault(step, Failure::Left(error.to_string())))?;
        Ok(start.elapsed())
    }

    /// Runs `run` like [`Self::run`], with a program that writes something. The first sample is the time until it has
    /// done so.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn begin(&self) -> Result<Vec<Sample>, Error> {
        let mut command = self.starting("run", &[]);
        let begun = process::run_until_output(&mut command, self.stand.deadline);
        let (begun, sample) = begun.map_err(|failure| self.fault("run", failure))?;
        self.made.set(false);
        Ok(vec![Sample { wall: begun, ..Sample::default() }, sample])
    }

    /// Runs `run`, and also returns what the container wrote to stdout.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_and_read(&self) -> Result<(Sample, String), Error> {
        let captured = process::captured();
        let (output, copy) = captured.map_err(|error| self.fault("run", Failure::Spawn(error)))?;
        let mut command = self.starting("run", &[]);
        command.stdout(copy);
        let sample = self.execute("run", command)?;
        self.made.set(false);
        Ok((sample, process::content(&output)))
    }

    /// Runs `create`.
    ///
    /// # Errors
    /// The runtime's failure, or a pid file without a pid.
    pub fn create(&self) -> Result<Sample, Error> {
        let command = self.starting("create", &["--pid-file", &self.pid_file()]);
        let sample = self.execute("create", command)?;
        self.read_pid("create").map(|_| sample)
    }

    /// Runs `start`.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn start(&self) -> Result<Sample, Error> {
        self.call("start", &[&self.id])
    }

    /// Runs `kill` with SIGKILL.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn kill(&self) -> Result<Sample, Error> {
        self.call("kill", &[&self.id, "KILL"])
    }

    /// Runs `exec` of `program`, in the foreground.
    ///
    /// # Errors
    /// The runtime's failure, or the program's exit status if it is not 0.
    pub fn exec(&self, program: &str) -> Result<Sample, Error> {
        self.call("exec", &[&self.id, program])
    }

    /// Waits until the container's program has ended. This process is the program's subreaper.
    ///
    /// # Errors
    /// The program does not end in time, or the container has no program.
    pub fn exit(&self) -> Result<Sample, Error> {
        let start = Instant::now();
        let pid = self.pid.get();
        let pid = pid.ok_or_else(|| self.fault("exit", Failure::Left("no program".to_owned())))?;
        let (_, usage) = process::wait(pid, self.stand.deadline)
            .map_err(|failure| self.fault("exit", failure))?;
        self.pid.set(None);
        Ok(Sample { wall: start.elapsed(), usage, ..Sample::default() })
    }

    /// Runs `delete` for a stopped container.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn delete(&self) -> Result<Sample, Error> {
        let sample = self.call("delete", &[&self.id])?;
        self.made.set(false);
        Ok(sample)
    }

    /// Returns the program's pid, between [`Self::create`] and [`Self::exit`].
    pub fn pid(&self) -> Option<Pid> {
        self.pid.get()
    }

    /// Returns the runtime's command `name`, with its state directory, the entrant's own options, and `words`; stdout is
    /// discarded.
    fn command(&self, name: &str, words: &[&str]) -> Command {
        let runtime = &self.entrant.runtime;
        let mut command = Command::new(&runtime.path);
        command.arg("--root").arg(runtime.state_root(&self.stand.state));
        command.args(self.stand.slice.as_ref().map(|_| "--systemd-cgroup"));
        command.arg(name).args(&self.entrant.options);
        if self.way.get() == Way::Traced {
            command.arg("--trace").arg(self.trace());
        }
        command.envs(self.entrant.environment.iter().map(|(name, value)| (name, value)));
        command.args(words).stdin(self.nothing()).stdout(self.nothing());
        command
    }

    /// Returns the command `run` or `create` with these options. From here on the container may exist.
    fn starting(&self, name: &str, options: &[&str]) -> Command {
        self.made.set(true);
        let mut command = self.command(name, options);
        command.args(&self.entrant.start_options);
        if let Some(template) = &self.template {
            command.args(["--template", template]);
        }
        command.arg("--bundle").arg(&self.bundle).arg(&self.id);
        command
    }

    /// Returns /dev/null or, for a container with a user namespace, an empty file in memory. For such a container, crun
    /// changes the owner of the standard streams to the container's root, and would also change the owner of the host's
    /// /dev/null.
    fn nothing(&self) -> Stdio {
        let config = fs::read_to_string(self.bundle.join("config.json")).unwrap_or_default();
        let file = config.contains("uidMappings").then(|| process::in_memory().ok());
        file.flatten().map_or_else(Stdio::null, Stdio::from)
    }

    fn call(&self, step: &'static str, words: &[&str]) -> Result<Sample, Error> {
        self.execute(step, self.command(step, words))
    }

    fn execute(&self, step: &'static str, mut command: Command) -> Result<Sample, Error> {
        let deadline = self.stand.deadline;
        let errors = File::create(self.errors()).map_err(Failure::Spawn);
        let sample = errors.and_then(|errors| match self.way.get() {
            Way::Timed => process::run(command.stderr(errors), deadline),
            Way::Traced => self.keep(inside::run(command.stderr(errors), &self.trace(), deadline)),
            Way::Observed => {
                let layout = self.stand.layout();
                let (what, deadline) = ((step, self.id.as_str()), FOLLOWED * deadline);
                self.keep(outside::observe(&command, errors, what, &layout, deadline))
            }
            way => weigh::weigh(&command, errors, way, FOLLOWED * deadline),
        });
        let sample = sample.and_then(|sample| self.check_fork().map(|()| sample));
        sample.map_err(|failure| self.fault(step, failure))
    }

    fn keep(&self, result: Result<(Sample, Observed), Failure>) -> Result<Sample, Failure> {
        let (sample, observed) = result?;
        self.observed.borrow_mut().push(observed);
        Ok(sample)
    }

    fn errors(&self) -> PathBuf {
        self.bundle.join("stderr")
    }

    fn trace(&self) -> PathBuf {
        self.bundle.join("trace.jsonl")
    }

    /// Returns a failure of a step of this container, with the runtime's last complaint.
    pub(crate) fn fault(&self, step: &'static str, failure: Failure) -> Error {
        let text = fs::read(self.errors()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // Some runtimes print a stack trace after the error.
        let telling = |line: &&str| line.to_ascii_lowercase().contains("error");
        let spoken = |line: &&str| !line.trim().is_empty();
        let said = text.lines().rfind(telling).or_else(|| text.lines().rfind(spoken));
        match said.map(str::trim) {
            None | Some("") => Error::Out(format!("{step}: {failure}")),
            Some(said) => Error::Out(format!("{step}: {failure}: {said}")),
        }
    }

    /// Removes the container by force.
    fn remove(&self) {
        self.way.set(Way::Timed);
        let mut command = self.command("delete", &["--force", &self.id]);
        // Failures are ignored, because the remains of the container are removed next.
        process::run_and_reap(command.stderr(Stdio::null()), self.stand.deadline);
        if let Some(pid) = self.pid.take() {
            let _ = kill_process(pid, Signal::KILL);
            let _ = process::wait(pid, Duration::from_secs(1));
        }
        self.stand.cgroup.clear(&self.id);
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        if self.made.get() {
            self.remove();
        }
        if let Some(image) = &self.entrant.image {
            // After a failure, the root filesystem is still mounted.
            let _ = Image::unmount(&self.bundle);
            image.clear(&self.bundle);
        }
        if let Err(error) = fs::remove_dir_all(&self.bundle) {
            eprintln!("warning: {} stays: {error}", self.bundle.display());
        }
    }
}
