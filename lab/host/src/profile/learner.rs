//! Runs a bundle with different profiles, and cleans up.

use crate::follow::{Command, End, Event, Listener, Mode, Stop, follow_until};
use crate::profile::calls::{Calls, Made};
use crate::profile::saved;
use report::{Error, interrupt};
use rustix::process::{Pid, getpid};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory in which a bundle is run with modified configurations. The directory and everything in it is removed
/// when the learner is dropped.
#[derive(Debug)]
pub struct Learner<'a> {
    runtime: PathBuf,
    /// The configuration of the runs, without the profile.
    config: Value,
    /// The directory of bundles, traces, and the runtime's state.
    directory: PathBuf,
    deadline: Duration,
    stop: &'a Stop,
    /// Whether to show the program's output, on standard error.
    pub shown: bool,
}

/// The number of directories and runs so far, for their names.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A listener that ignores all calls.
struct Deaf;

impl Listener for Deaf {
    fn hear(&mut self, _: Pid, _: Event) {}

    fn hears_calls_of(&self, _: Pid) -> bool {
        false
    }

    /// Returns true: containers are followed, so that an interruption kills them together with the runtime.
    fn follows_containers(&self) -> bool {
        true
    }
}

impl<'a> Learner<'a> {
    /// Returns a learner that runs containers of `config` with `runtime`, each for at most `deadline`. `config` must
    /// not depend on its directory (see [`read`]).
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn new(
        runtime: &Path,
        config: Value,
        deadline: Duration,
        stop: &'a Stop,
    ) -> Result<Self, Error> {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("dayfly-profile-{}-{serial}", getpid()));
        // The root user of a container's user namespace needs search permission.
        DirBuilder::new().mode(0o711).create(&directory).map_err(Error::of("make", &directory))?;
        Ok(Self { runtime: runtime.to_owned(), config, directory, deadline, stop, shown: false })
    }

    /// Runs the bundle with `profile` once; returns the calls made under it.
    ///
    /// # Errors
    /// A run that fails; a run that loads no filter; an interrupt.
    pub fn hear(&self, profile: &Value) -> Result<BTreeSet<Made>, Error> {
        let mut calls = Calls::default();
        self.run(profile, None, &mut calls)?;
        if !calls.has_filter {
            bail!("{} loaded no filter", self.runtime.display());
        }
        Ok(calls.made)
    }

    /// Runs the bundle with `profile` once, without tracing its calls. Returns how long the filter's loads took, in
    /// microseconds, if the runtime is dayfly, whose own trace shows it.
    ///
    /// # Errors
    /// A run that fails; an interrupt; a trace that cannot be read.
    pub fn loads(&self, profile: &Value) -> Result<Vec<f64>, Error> {
        let is_dayfly = self.runtime.file_name().is_some_and(|name| name == "dayfly");
        let file = is_dayfly.then(|| self.directory.join("trace.jsonl"));
        self.run(profile, file.as_deref(), &mut Deaf)?;
        let Some(file) = file else { return Ok(Vec::new()) };
        let text = fs::read_to_string(&file).map_err(Error::of("read", &file))?;
        let _ = fs::remove_file(&file);
        Ok(saved::loads(&text))
    }

    /// Runs the bundle once. The runtime writes a trace of the start, if requested.
    fn run(
        &self,
        profile: &Value,
        trace: Option<&Path>,
        listener: &mut dyn Listener,
    ) -> Result<(), Error> {
        interrupt::check().map_err(Error::from)?;
        let id = format!("learn-{}-{}", getpid(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let bundle = self.directory.join(&id);
        DirBuilder::new().mode(0o711).create(&bundle).map_err(Error::of("make", &bundle))?;
        let mut config = self.config.clone();
        config["linux"]["seccomp"] = profile.clone();
        let file = bundle.join("config.json");
        fs::write(&file, config.to_string()).map_err(Error::of("write", &file))?;
        let said = bundle.join("said");
        let mut command = Command::new(&self.runtime).arg("--root").arg(self.state()).arg("run");
        if let Some(trace) = trace {
            command = command.arg("--trace").arg(trace);
        }
        let command = command.arg("--bundle").arg(&bundle).arg(&id);
        let command = command.stdout(self.output(&said)?).stderr(self.output(&said)?);
        let end = follow_until(&command, Mode::Syscalls, self.deadline, self.stop, listener);
        let result = match end {
            Ok(End::Exited(0)) => Ok(()),
            // After an interrupt, the interrupt is the error, however the run ended.
            _ if interrupt::came() => Err(Error::from(interrupt::Interrupted)),
            Ok(End::Exited(status)) => Err(failure(&said, &format!("exit status {status}"))),
            Ok(End::Killed(signal)) => Err(failure(&said, &format!("killed by signal {signal}"))),
            Ok(end) => Err(failure(&said, &format!("{end:?}"))),
            Err(error) => Err(Error::refused(error.to_string())),
        };
        if result.is_err() {
            self.delete(&id);
        }
        fs::remove_dir_all(&bundle).map_err(Error::of("remove", &bundle))?;
        result
    }

    /// Returns the descriptor for the output of a run: standard error, or a file.
    fn output(&self, said: &Path) -> Result<OwnedFd, Error> {
        if self.shown {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            return stderr.map_err(Error::of("duplicate", Path::new("standard error")));
        }
        let file = File::options().create(true).append(true).open(said);
        file.map(OwnedFd::from).map_err(Error::of("open", said))
    }

    fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// Deletes the container of a run that did not end by itself.
    fn delete(&self, id: &str) {
        let mut command = std::process::Command::new(&self.runtime);
        command.arg("--root").arg(self.state()).args(["delete", "--force", id]);
        let null = Stdio::null;
        // If the runtime had not created the container, it prints an error, which is discarded.
        let _ = command.stdin(null()).stdout(null()).stderr(null()).status();
    }
}

impl Drop for Learner<'_> {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("dayfly: remove {}: {error}", self.directory.display());
        }
    }
}

/// Returns the error of a failed run, with the last line of its output if that was not shown.
fn failure(said: &Path, how: &str) -> Error {
    let text = fs::read(said).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().next_back().map(|line| format!(": {line}")).unwrap_or_default();
    refused!("the run failed: {how}{last}")
}

/// Returns the configuration of a bundle, changed to work in any directory and without a terminal. If `program` is not
/// empty, it replaces the bundle's program.
///
/// # Errors
/// The bundle lacks a configuration or a root filesystem.
pub fn read(bundle: &Path, program: &[String]) -> Result<Value, Error> {
    let file = bundle.join("config.json");
    let mut config = read_json(&file)?;
    if !config.is_object() || !config["process"].is_object() {
        bail!("{}: it describes no process", file.display());
    }
    let root = bundle.join(config["root"]["path"].as_str().unwrap_or("rootfs"));
    let root = fs::canonicalize(&root).map_err(Error::of("find root filesystem", &root))?;
    let bundle = fs::canonicalize(bundle).map_err(Error::of("find", bundle))?;
    if !config["root"].is_object() {
        config["root"] = json!({});
    }
    config["root"]["path"] = json!(root);
    for mount in config["mounts"].as_array_mut().into_iter().flatten() {
        let options = mount["options"].as_array().into_iter().flatten();
        let is_bind = mount["type"] == "bind"
            || options.filter_map(Value::as_str).any(|option| matches!(option, "bind" | "rbind"));
        if let Some(source) = mount["source"].as_str().filter(|_| is_bind) {
            mount["source"] = json!(bundle.join(source));
        }
    }
    config["process"]["terminal"] = json!(false);
    if !program.is_empty() {
        config["process"]["args"] = json!(program);
    }
    Ok(config)
}

/// Reads a file of JSON.
///
/// # Errors
/// A file that cannot be read, or is not JSON.
pub fn read_json(file: &Path) -> Result<Value, Error> {
    let text = fs::read_to_string(file).map_err(Error::of("read", file))?;
    let wrong = |error| refused!("{}: {error}", file.display());
    serde_json::from_str(&text).map_err(wrong)
}
