//! The groups, which are created and changed by `dayfly cgroup`, as a user would do.

use crate::harness::*;
use crate::runtime;

/// The controllers in use.
const CONTROLLERS: [&str; 3] = ["cpu", "cpuset", "memory"];

/// The group without limits, in which instances run side by side.
pub(super) const ALL: &str = "all";

/// The timeout of a change: a lower memory limit makes the kernel reclaim pages.
const DEADLINE: Duration = Duration::from_secs(240);

/// The parent of the groups. It is removed with the test stand.
pub(super) struct Ground {
    dayfly: PathBuf,
    /// The name of the parent.
    base: String,
    directory: PathBuf,
}

impl Ground {
    /// Creates the parent, with the maximum CPU weight, and the group of all instances.
    ///
    /// # Errors
    /// A host without the controllers; no dayfly beside this program or in $PATH; those of `dayfly cgroup create`.
    pub(super) fn make(stand: &Stand) -> Result<Self, Error> {
        if let Some(missing) = CONTROLLERS.iter().find(|name| !can_limit(name)) {
            bail!(
                "there is no controller {missing} for groups here: try --view v1, or another host"
            );
        }
        let base = stand.cgroup.path.trim_start_matches('/').to_owned();
        let directory = stand.directory.clone();
        let ground = Self { dayfly: runtime::dayfly()?, base, directory };
        // A high weight reduces the influence of the host's other processes on the figures.
        ground.call(&["create", &with_controllers(&ground.base)])?;
        ground.call(&["set", &ground.base, "-r", "cpu.weight=10000"])?;
        ground.create(ALL)?;
        Ok(ground)
    }

    /// Returns the directory for the instances' files.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.base)
    }

    /// Creates a group.
    ///
    /// # Errors
    /// Those of `dayfly cgroup create`.
    pub(super) fn create(&self, name: &str) -> Result<(), Error> {
        self.call(&["create", &with_controllers(&self.path(name))])
    }

    /// Sets a value, `KEY=VALUE`, by its v2 name.
    ///
    /// # Errors
    /// Those of `dayfly cgroup set`.
    pub(super) fn set(&self, name: &str, setting: &str) -> Result<(), Error> {
        self.call(&["set", &self.path(name), "-r", setting])
    }

    /// Limits a group's CPU time: 1 CPU is a quota of 100 ms in each period of 100 ms.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(super) fn limit_cpus(&self, name: &str, cpus: f64) -> Result<(), Error> {
        self.set(name, &format!("cpu.max={:.0} 100000", (cpus * 1e5).max(1e3)))
    }

    /// Restricts a group to a list of CPUs.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(super) fn pin(&self, name: &str, cpus: &str) -> Result<(), Error> {
        self.set(name, &format!("cpuset.cpus={cpus}"))
    }

    /// Pins a group to a memory node, with CPUs and memory.
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

    /// Removes a group with its processes.
    ///
    /// # Errors
    /// Those of `dayfly cgroup rm`.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        self.call(&["rm", "--recursive", "--kill", &self.path(name)])
    }

    /// Returns the memory charged to a group, in MiB.
    pub(super) fn used_mib(&self, name: &str) -> f64 {
        let path = self.path(name);
        let files = [
            format!("/sys/fs/cgroup/{path}/memory.current"),
            format!("/sys/fs/cgroup/memory/{path}/memory.usage_in_bytes"),
        ];
        let read = |file: &String| fs::read_to_string(file).ok()?.trim().parse::<f64>().ok();
        files.iter().find_map(read).unwrap_or_default() / f64::from(1 << 20)
    }

    /// Returns a command that executes its arguments in a group.
    pub(super) fn inside(&self, name: &str) -> Command {
        let mut command = Command::new(&self.dayfly);
        command.args(["cgroup", "exec", "-g", &with_controllers(&self.path(name))]);
        command
    }

    fn call(&self, words: &[&str]) -> Result<(), Error> {
        let mut command = Command::new(&self.dayfly);
        command.arg("cgroup").args(words).stdin(Stdio::null()).stdout(Stdio::null());
        let failed = |reason| unfit!("dayfly cgroup {}: {reason}", words.join(" "));
        process::run_and_hear(&mut command, DEADLINE).map(drop).map_err(failed)
    }
}

/// Returns a group as `dayfly cgroup` takes it.
fn with_controllers(path: &str) -> String {
    format!("{}:{path}", CONTROLLERS.join(","))
}
