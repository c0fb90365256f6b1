//! A container of a case, and the commands on it.

use crate::bed::Bed;
use crate::cgroups;
use crate::leak;
use crate::runtime::{Call, Outcome};
use crate::wait;
use serde_json::Value;
use std::path::PathBuf;

/// The names of the fields of `state`, and of a container in `list --format json`.
pub const STATE_FIELDS: [&str; 9] =
    ["annotations", "bundle", "created", "id", "ociVersion", "owner", "pid", "rootfs", "status"];

/// A container that may not exist yet.
pub struct Container<'a> {
    /// The bed that the container belongs to.
    pub bed: &'a Bed,
    /// The id of the container.
    pub id: String,
    /// The bundle of the container.
    pub bundle: PathBuf,
}

impl<'a> Container<'a> {
    pub(crate) fn new(bed: &'a Bed, id: String, bundle: PathBuf) -> Self {
        Self { bed, id, bundle }
    }

    /// Returns the call `create|run FLAGS --bundle B ID`, not yet run.
    #[must_use]
    pub fn bundle_call(&self, verb: &str, flags: &[&str]) -> Call {
        let bundle = self.bundle.to_string_lossy();
        let mut args = vec![verb];
        args.extend(flags);
        args.extend(["--bundle", &bundle, &self.id]);
        self.bed.call(&args)
    }

    /// Returns [`Self::bundle_call`] for a container in a systemd scope.
    #[must_use]
    pub fn scope_call(&self, verb: &str, flags: &[&str]) -> Call {
        let flags = [&[verb], flags].concat();
        self.bundle_call("--systemd-cgroup", &flags)
    }

    /// Returns the call `VERB FLAGS ID REST`, not yet run.
    #[must_use]
    pub fn id_call(&self, verb: &str, flags: &[&str], rest: &[&str]) -> Call {
        let mut args = vec![verb];
        args.extend(flags);
        args.push(&self.id);
        args.extend(rest);
        self.bed.call(&args)
    }

    /// Runs `create`.
    #[track_caller]
    pub fn create(&self) -> Outcome {
        self.bundle_call("create", &[]).run()
    }

    /// Runs `create` with flags.
    #[track_caller]
    pub fn create_with(&self, flags: &[&str]) -> Outcome {
        self.bundle_call("create", flags).run()
    }

    /// Runs `run` in the foreground.
    #[track_caller]
    pub fn run(&self) -> Outcome {
        self.bundle_call("run", &[]).run()
    }

    /// Runs `run` with flags.
    #[track_caller]
    pub fn run_with(&self, flags: &[&str]) -> Outcome {
        self.bundle_call("run", flags).run()
    }

    /// Runs `run --detach`, and asserts success.
    #[track_caller]
    #[must_use]
    pub fn detached(self) -> Self {
        self.run_with(&["--detach"]).ok();
        self
    }

    /// Runs `start`.
    #[track_caller]
    pub fn start(&self) -> Outcome {
        self.id_call("start", &[], &[]).run()
    }

    /// Runs `kill ID SIGNAL`.
    #[track_caller]
    pub fn kill(&self, signal: &str) -> Outcome {
        self.id_call("kill", &[], &[signal]).run()
    }

    /// Runs `delete`.
    #[track_caller]
    pub fn delete(&self) -> Outcome {
        self.id_call("delete", &[], &[]).run()
    }

    /// Runs `delete --force`.
    #[track_caller]
    pub fn delete_force(&self) -> Outcome {
        self.id_call("delete", &["--force"], &[]).run()
    }

    /// Runs `exec ID COMMAND`.
    #[track_caller]
    pub fn exec(&self, command: &[&str]) -> Outcome {
        self.id_call("exec", &[], command).run()
    }

    /// Runs `exec ID sh -c SCRIPT`.
    #[track_caller]
    pub fn sh(&self, script: &str) -> Outcome {
        self.exec(&["/bin/sh", "-c", script])
    }

    /// Runs `exec FLAGS ID COMMAND`.
    #[track_caller]
    pub fn exec_with(&self, flags: &[&str], command: &[&str]) -> Outcome {
        self.id_call("exec", flags, command).run()
    }

    /// Returns the parsed output of `state`.
    ///
    /// # Panics
    /// When the command fails or prints no JSON.
    #[track_caller]
    #[must_use]
    pub fn state(&self) -> Value {
        let outcome = self.id_call("state", &[], &[]).run().ok();
        match serde_json::from_str(&outcome.stdout) {
            Ok(state) => state,
            Err(error) => panic!("state prints no JSON: {error}: {outcome}"),
        }
    }

    /// Returns `status` from `state`.
    #[track_caller]
    #[must_use]
    pub fn status(&self) -> String {
        self.state()["status"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns `pid` from `state`.
    ///
    /// # Panics
    /// When the value is not a pid.
    #[track_caller]
    #[must_use]
    pub fn pid(&self) -> i32 {
        let state = self.state();
        let pid = state["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.filter(|pid| *pid > 0).unwrap_or_else(|| panic!("no pid in {state}"))
    }

    /// Waits until `state` reports `status`.
    #[track_caller]
    pub fn wait_status(&self, status: &str) {
        wait::until_true(&format!("{} to be {status}", self.id), || self.status() == status);
    }

    /// Returns the path of `file` in the container's cgroup under `controller`.
    #[must_use]
    pub fn cgroup_file(&self, controller: &str, file: &str) -> PathBuf {
        cgroups::dir(self.bed.view, controller, &cgroups::path_of(&self.id)).join(file)
    }

    /// Returns the content of a cgroup file, trimmed.
    ///
    /// # Panics
    /// When the file can't be read.
    #[track_caller]
    #[must_use]
    pub fn cgroup_read(&self, controller: &str, file: &str) -> String {
        let path = self.cgroup_file(controller, file);
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) => panic!("read {}: {error}", path.display()),
        }
    }

    /// Asserts that no record, mount, cgroup or process of the container is left after `what`.
    ///
    /// # Panics
    /// When something remains for longer than [`wait::patience`].
    #[track_caller]
    pub fn assert_gone(&self, what: &str) {
        let ids = [self.id.clone()];
        let find = || {
            let mut left = leak::find(self.bed.view, &self.bundle, &ids);
            let record = self.bed.root().join(&self.id);
            left.extend(
                record.exists().then(|| format!("state left behind: {}", record.display())),
            );
            left
        };
        wait::until_none(&format!("anything left by {what}"), find);
    }

    /// Returns whether the runtime still has a record of the container.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.id_call("state", &[], &[]).run().code() == 0
    }
}
