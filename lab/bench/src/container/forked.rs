//! Templates, and containers whose programs they fork.

use super::{Container, Fault};
use crate::Error;
use crate::process::{self, Failure, Sample};
use crate::stand::{Entrant, Stand};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

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
    pub fn become_template(&self) -> Result<Sample, Fault> {
        self.made.set(true);
        let arguments = ["template", "create", "--bundle"].map(AsRef::as_ref);
        let rest = [self.bundle.as_os_str(), self.id.as_ref()];
        self.call("template create", &[&arguments[..], &rest].concat())
    }

    /// Returns the pid of the container's first process, as `state` prints it. For a template, this is its reaper.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn first_process(&self) -> Result<i32, Fault> {
        let mut command = self.command(&["state".as_ref(), self.id.as_ref()]);
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
