//! The test stand: where containers are made, and that nothing stays behind.

use crate::cgroup::Parent;
use crate::config::{self, Profile};
use crate::rootfs;
use crate::runtime::Runtime;
use crate::trace::outside::Layout;
use crate::{Error, leftover};
use rustix::fd::OwnedFd;
use rustix::fs::statfs;
use rustix::process::{WaitOptions, geteuid, getpid, set_child_subreaper, wait};
use serde_json::{Value, json};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// TMPFS_MAGIC of statfs(2).
const TMPFS: i64 = 0x0102_1994;

/// One of those that are compared.
#[derive(Debug, Clone)]
pub struct Entrant {
    /// What reports call it.
    pub name: String,
    /// What is executed.
    pub runtime: Runtime,
    /// Options of its own, for each command.
    pub options: Vec<String>,
    /// Options of its own, for `create` and `run`.
    pub start_options: Vec<String>,
    /// Further variables of the runtime's environment.
    pub environment: Vec<(String, String)>,
    /// How many of its starts the host has in flight at once, if that is limited (`dayfly host limit`).
    pub limit: Option<u16>,
    /// Why it is out, if it is.
    pub failure: Option<String>,
}

impl Entrant {
    /// A runtime as it is.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self {
            name: runtime.name.clone(),
            runtime,
            options: Vec::new(),
            start_options: Vec::new(),
            environment: Vec::new(),
            limit: None,
            failure: None,
        }
    }

    /// One of that name, and nothing behind it.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self::new(Runtime {
            name: name.to_owned(),
            path: PathBuf::new(),
            version: format!("{name} version 1"),
            sha256: String::new(),
        })
    }
}

/// What containers are made from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A busybox and a configuration of the harness's own.
    Profile(Profile),
    /// The user's bundle.
    Bundle(PathBuf),
}

/// The stand. It takes everything away when dropped.
#[derive(Debug)]
pub struct Stand {
    /// Bundles and the root filesystem.
    directory: PathBuf,
    /// The runtimes' state directories, on a tmpfs.
    state: PathBuf,
    /// The parent of the containers' cgroups.
    cgroup: Parent,
    /// What every container's config.json is made from.
    config: Value,
    /// How long a command may take.
    pub deadline: Duration,
    serial: AtomicU32,
    /// That its owner lives: locks on its directories, let go of last.
    locks: Vec<OwnedFd>,
}

impl Stand {
    /// Sets up directories, cgroup and configuration, and makes this process the parent of orphans
    /// below it, as an engine's monitor is: so it can wait for the end of containers. What it makes
    /// is named after this process and `suffix`.
    ///
    /// # Errors
    /// Not root; no busybox or seccomp profile; a bundle that can't be read; a full disk.
    pub fn set_up(suffix: &str, source: &Source, deadline: Duration) -> Result<Self, Error> {
        if !geteuid().is_root() {
            return Err(Error::Unfit("benchmarks start containers: run them as root".to_owned()));
        }
        let name = format!("{}{}{suffix}", leftover::PREFIX, getpid());
        let own = Some(getpid());
        set_child_subreaper(own).map_err(Error::errno("become subreaper", Path::new("")))?;
        let state = state(&name);
        // Root of a user namespace must get through to the root filesystem.
        make_directory(&state, 0o711)?;
        let lock = leftover::own(&state)?;
        let mut stand = Self {
            state,
            cgroup: Parent::make(&name)?,
            config: Value::Null,
            deadline,
            serial: AtomicU32::new(0),
            directory: directory(&name),
            locks: vec![lock],
        };
        make_directory(&stand.directory, 0o711)?;
        stand.locks.push(leftover::own(&stand.directory)?);
        stand.config = stand.read(source)?;
        Ok(stand)
    }

    fn read(&self, source: &Source) -> Result<Value, Error> {
        match source {
            Source::Profile(profile) => {
                let root = self.directory.join("rootfs");
                rootfs::make(&root, profile.owner())?;
                let mut config = config::podman(*profile)?;
                config["root"]["path"] = json!(root);
                Ok(config)
            }
            Source::Bundle(bundle) => read_bundle(bundle),
        }
    }

    /// Leaves out the device rules, which older crun can't load where raising limits is not allowed.
    pub fn drop_device_rules(&mut self) {
        if let Some(resources) = self.config["linux"]["resources"].as_object_mut() {
            resources.remove("devices");
        }
    }

    /// Has containers run `program` in place of what their configuration says.
    pub fn run_instead(&mut self, program: &[String]) {
        self.config["process"]["args"] = json!(program);
    }

    /// Has every container from now on join the namespaces of the process `pid`.
    pub fn join(&mut self, pid: i32) {
        config::join(&mut self.config, pid);
    }

    /// Where its containers' files are.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::of(&self.config)
    }

    /// Where bundles are, on a disk if the host has one for temporary files; for what else an
    /// experiment needs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The parent of the runtimes' state directories.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Whether containers have a seccomp profile.
    #[must_use]
    pub fn has_seccomp(&self) -> bool {
        self.config["linux"]["seccomp"].is_object()
    }

    /// Writes the bundle of a container that runs `program`, or what the configuration says if that is
    /// empty, and is configured as `change` makes it. Returns the id it is for.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub(crate) fn write_bundle(
        &self,
        program: &[&str],
        change: impl FnOnce(&mut Value),
    ) -> Result<(String, PathBuf), Error> {
        let id = format!("bench-{}-{}", getpid(), self.serial.fetch_add(1, Ordering::Relaxed));
        let bundle = self.directory.join(&id);
        make_directory(&bundle, 0o711)?;
        let mut config = self.config.clone();
        config["linux"]["cgroupsPath"] = json!(format!("{}/{id}", self.cgroup.path));
        if !program.is_empty() {
            config["process"]["args"] = json!(program);
        }
        change(&mut config);
        let file = bundle.join("config.json");
        fs::write(&file, config.to_string()).map_err(Error::at("write", &file))?;
        Ok((id, bundle))
    }

    /// The parent of the containers' cgroups, from the root of each hierarchy on, with a slash before it.
    #[must_use]
    pub fn cgroup_path(&self) -> &str {
        &self.cgroup.path
    }

    /// Makes a cgroup that is no container's, in one hierarchy. It goes with the stand.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub(crate) fn make_cgroup(&self, name: &str) -> Result<PathBuf, Error> {
        self.cgroup.make_child(name)
    }

    /// Kills what is left of the container `id` and removes its cgroup.
    pub(crate) fn clear(&self, id: &str) {
        self.cgroup.clear(id);
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.cgroup.clear_all();
        // The state's last: while it is there, this is a stand whose owner lives.
        // What was there before, so that setting up failed, is not this stand's.
        let made = [&self.state, &self.directory];
        for directory in made.into_iter().take(self.locks.len()).rev() {
            if let Err(error) = leftover::remove(directory) {
                eprintln!("dayfly-bench: {error}: \"dayfly bench gc\" tries again");
            }
        }
        // Orphans that were killed.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

fn make_directory(path: &Path, mode: u32) -> Result<(), Error> {
    DirBuilder::new().mode(mode).create(path).map_err(Error::at("make", path))
}

/// Where the stand of this name has its bundles.
pub(crate) fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

/// Where it has the runtimes' state.
pub(crate) fn state(name: &str) -> PathBuf {
    tmpfs().join(name)
}

/// Whether a directory is on a tmpfs.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.f_type == TMPFS)
}

/// Where a host keeps what lives until reboot, if that is in memory; else any tmpfs.
fn tmpfs() -> PathBuf {
    ["/run", "/dev/shm"]
        .into_iter()
        .find(|path| is_in_memory(Path::new(path)))
        .unwrap_or("/run")
        .into()
}

/// The user's configuration, fit to be used from another directory and without a terminal.
fn read_bundle(bundle: &Path) -> Result<Value, Error> {
    let file = bundle.join("config.json");
    let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
    let mut config: Value = serde_json::from_str(&text)
        .map_err(|error| Error::Unfit(format!("{}: {error}", file.display())))?;
    let root = config["root"]["path"].as_str().unwrap_or("rootfs");
    let root = bundle.join(root);
    let root = fs::canonicalize(&root).map_err(Error::at("find root filesystem", &root))?;
    config["root"]["path"] = json!(root);
    config["process"]["terminal"] = json!(false);
    Ok(config)
}
