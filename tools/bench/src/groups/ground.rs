//! The groups, which `dayfly cgroup` makes and changes, as a user does it.

use crate::stand::Stand;
use crate::{Error, cgroup, process, runtime};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What instances are given.
const CONTROLLERS: [&str; 3] = ["cpu", "cpuset", "memory"];

/// How long a change of a group may take: the kernel pushes out what a new limit has no room for.
const DEADLINE: Duration = Duration::from_secs(240);

/// Where the groups are. They go with the stand.
pub(super) struct Ground {
    dayfly: PathBuf,
    /// The parent of all.
    base: String,
    directory: PathBuf,
}

impl Ground {
    /// Makes the parent, which comes before all else that wants CPUs.
    ///
    /// # Errors
    /// A host without the controllers; no dayfly beside this program; those of `dayfly cgroup create`.
    pub(super) fn make(stand: &Stand) -> Result<Self, Error> {
        if let Some(missing) = CONTROLLERS.iter().find(|name| !cgroup::can_limit(name)) {
            let reason = format!(
                "there is no controller {missing} for groups here: try --view v1, or another host"
            );
            return Err(Error::Unfit(reason));
        }
        let missing = || Error::Unfit("no dayfly beside dayfly-bench, nor in $PATH".to_owned());
        let base = stand.cgroup_path().trim_start_matches('/').to_owned();
        let directory = stand.directory().to_owned();
        let ground = Self { dayfly: runtime::own().ok_or_else(missing)?, base, directory };
        // What else the host has to do stays out of the figures.
        ground.call(&["create", &format!("{}:{}", CONTROLLERS.join(","), ground.base)])?;
        ground.call(&["set", &ground.base, "-r", "cpu.weight=10000"])?;
        Ok(ground)
    }

    /// Where instances may have files.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.base)
    }

    /// Makes a group.
    ///
    /// # Errors
    /// Those of `dayfly cgroup create`.
    pub(super) fn create(&self, name: &str) -> Result<(), Error> {
        self.call(&["create", &format!("{}:{}", CONTROLLERS.join(","), self.path(name))])
    }

    /// Sets a value, `KEY=VALUE`, by its name in v2.
    ///
    /// # Errors
    /// Those of `dayfly cgroup set`.
    pub(super) fn set(&self, name: &str, setting: &str) -> Result<(), Error> {
        self.call(&["set", &self.path(name), "-r", setting])
    }

    /// Lets a group have so much of the CPUs' time: of 1 CPU, 100 ms in each 100 ms.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(super) fn limit_cpus(&self, name: &str, cpus: f64) -> Result<(), Error> {
        self.set(name, &format!("cpu.max={:.0} 100000", (cpus * 1e5).max(1e3)))
    }

    /// Has a group run on a list of CPUs.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(super) fn pin(&self, name: &str, cpus: &str) -> Result<(), Error> {
        self.set(name, &format!("cpuset.cpus={cpus}"))
    }

    /// Pins a group to a memory node: its CPUs and its memory.
    ///
    /// # Errors
    /// Those of `dayfly cgroup pin`.
    pub(super) fn pin_to_node(&self, name: &str, node: usize) -> Result<(), Error> {
        self.call(&["pin", &self.path(name), &format!("node:{node}")])
    }

    /// Exchanges the CPUs of two groups.
    ///
    /// # Errors
    /// Those of `dayfly cgroup swap`.
    pub(super) fn swap(&self, one: &str, other: &str) -> Result<(), Error> {
        self.call(&["swap", &self.path(one), &self.path(other)])
    }

    /// Removes a group with all that is in it.
    ///
    /// # Errors
    /// Those of `dayfly cgroup rm`.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        self.call(&["rm", "--recursive", "--kill", &self.path(name)])
    }

    /// What a group is charged with, in MiB.
    pub(super) fn used_mib(&self, name: &str) -> f64 {
        let path = self.path(name);
        let files = [
            format!("/sys/fs/cgroup/{path}/memory.current"),
            format!("/sys/fs/cgroup/memory/{path}/memory.usage_in_bytes"),
        ];
        let read = |file: &String| fs::read_to_string(file).ok()?.trim().parse::<f64>().ok();
        files.iter().find_map(read).unwrap_or_default() / f64::from(1 << 20)
    }

    /// A command that executes in a group what is added to it.
    pub(super) fn inside(&self, name: &str) -> Command {
        let mut command = Command::new(&self.dayfly);
        command.args(["cgroup", "exec", "-g"]);
        command.arg(format!("{}:{}", CONTROLLERS.join(","), self.path(name)));
        command
    }

    fn call(&self, words: &[&str]) -> Result<(), Error> {
        let errors = self.directory.join("cgroup.errors");
        let file = fs::File::create(&errors).map_err(Error::at("write", &errors))?;
        let mut command = Command::new(&self.dayfly);
        command.arg("cgroup").args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        process::run(&mut command, DEADLINE).map(drop).map_err(|failure| {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            Error::Unfit(format!("dayfly cgroup {}: {failure}: {}", words.join(" "), said.trim()))
        })
    }
}
