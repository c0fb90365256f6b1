//! The test stand: the directories and cgroups in which an experiment makes containers. They are removed at its end.

use crate::base::*;
use crate::cgroup::Parent;
use crate::config::{self, Profile};
use crate::engine::Image;
use crate::runtime::Runtime;
use crate::trace::outside::Layout;
use crate::{leftover, place, rootfs};
use rustix::process::{WaitOptions, geteuid, getpid, set_child_subreaper, wait};
use std::os::unix::fs::DirBuilderExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// An entrant: a runtime with its options and environment, which is compared with the other entrants.
#[derive(Debug, Clone, Default)]
pub struct Entrant {
    /// The entrant's name in reports.
    pub name: String,
    /// The executed runtime.
    pub runtime: Runtime,
    /// Additional options of each command.
    pub options: Vec<String>,
    /// Additional options of `create` and `run`.
    pub start_options: Vec<String>,
    /// Additional environment variables of the runtime.
    pub environment: Vec<(String, String)>,
    /// The layers of the root filesystem that is mounted on the host around each `run`; `None` for the stand's own root
    /// filesystem, and for a runtime that assembles layers itself.
    pub(crate) image: Option<Image>,
    /// The limit of starts in flight that the host has while this entrant runs, if any (`dayfly host limit`).
    pub limit: Option<u16>,
    /// The reason why the entrant is out of the experiment, if it is.
    pub(crate) failure: OnceLock<String>,
}

impl Entrant {
    /// Makes an entrant of a runtime, without additional options or variables.
    pub fn new(runtime: Runtime) -> Self {
        Self { name: runtime.name.clone(), runtime, ..Self::default() }
    }

    /// Returns the entrant under another name, not excluded.
    pub fn called(&self, name: impl Into<String>) -> Self {
        Self { name: name.into(), failure: OnceLock::new(), ..self.clone() }
    }

    /// Returns the reason why the entrant is out of the experiment, if it is.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Returns whether the entrant is out of the experiment.
    pub fn is_out(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Excludes the entrant from the rest of the experiment. The first reason counts.
    pub fn leave(&self, reason: impl Into<String>) {
        let _ = self.failure.set(reason.into());
    }

    /// Returns the result of a measurement of this entrant. If the runtime failed, the entrant leaves, and there is no
    /// result.
    ///
    /// # Errors
    /// All that end the whole experiment: any other error; an interrupt.
    pub fn attempt<T>(&self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(result) => Ok(Some(result)),
            Err(Error::Out(reason)) => {
                // An interrupt of the terminal also ends the runtime.
                interrupt::check()?;
                self.leave(reason);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes an entrant with only a name, whose runtime something else executes.
    pub(crate) fn named(name: &str) -> Self {
        let version = format!("{name} version 1");
        Self::new(Runtime { name: name.to_owned(), version, ..Runtime::default() })
    }
}

/// Returns the name of the entrant with which the others are compared.
pub fn first(entrants: &[Entrant]) -> &str {
    entrants.first().map_or("", |entrant| &entrant.name)
}

/// The source of containers.
#[derive(Debug, Clone)]
pub enum Source {
    /// A busybox and the harness's own configuration.
    Profile(Profile),
    /// The user's bundle.
    Bundle(PathBuf),
}

/// The stand. Dropping the stand removes everything that it has made.
#[derive(Debug)]
pub struct Stand {
    /// The directory of bundles and the root filesystem, which an experiment may use for other files; it is on a disk if
    /// the host's temporary directory is.
    pub directory: PathBuf,
    /// The directory of the runtimes' state directories, on a tmpfs.
    pub state: PathBuf,
    /// The parent of the containers' cgroups.
    pub cgroup: Parent,
    /// The source of containers.
    pub source: Source,
    /// The template of every container's config.json.
    config: Value,
    /// The slice of the containers' scopes, if systemd makes their cgroups.
    pub slice: Option<String>,
    /// The deadline of a command.
    pub deadline: Duration,
    serial: AtomicU32,
    /// Locks on the stand's directories: they show that the process that made the stand is alive, and are released
    /// last.
    locks: Vec<OwnedFd>,
}

/// Checks that the caller can start containers.
///
/// # Errors
/// Not root.
pub fn check_rights() -> Result<(), Error> {
    match geteuid().is_root() {
        true => Ok(()),
        false => Err(unfit!("benchmarks start containers: run them as root")),
    }
}

impl Stand {
    /// Sets up directories, cgroup and configuration, and makes this process a subreaper, like an engine's monitor, so
    /// that it can wait for the end of containers. Everything that the stand makes is named after this process and
    /// `suffix`.
    ///
    /// # Errors
    /// Not root; no busybox or seccomp profile; a bundle that can't be read; a full disk.
    pub fn set_up(suffix: &str, source: Source, deadline: Duration) -> Result<Self, Error> {
        check_rights()?;
        let name = format!("{}{}{suffix}", place::PREFIX, getpid());
        let own = Some(getpid());
        set_child_subreaper(own).map_err(Error::errno("become subreaper", Path::new("")))?;
        let state = place::state(&name);
        // Root of a user namespace must be able to reach the root filesystem.
        make_directory(&state, 0o711)?;
        let lock = leftover::own(&state)?;
        let mut stand = Self {
            state,
            cgroup: Parent::make(&name)?,
            source,
            config: Value::Null,
            slice: None,
            deadline,
            serial: AtomicU32::new(0),
            directory: place::directory(&name),
            locks: vec![lock],
        };
        make_directory(&stand.directory, 0o711)?;
        stand.locks.push(leftover::own(&stand.directory)?);
        stand.config = stand.read()?;
        Ok(stand)
    }

    fn read(&self) -> Result<Value, Error> {
        match &self.source {
            Source::Profile(profile) => {
                let root = self.directory.join("rootfs");
                rootfs::make(&root, profile.owner())?;
                let mut config = config::podman(*profile);
                config["root"]["path"] = json!(root);
                Ok(config)
            }
            Source::Bundle(bundle) => read_bundle(bundle),
        }
    }

    /// Removes the device rules, which crun before 1.9 can't load without CAP_SYS_RESOURCE.
    pub fn drop_device_rules(&mut self) {
        if let Some(resources) = self.config["linux"]["resources"].as_object_mut() {
            resources.remove("devices");
        }
    }

    /// Makes containers run `program` instead of the program in the configuration.
    pub fn run_instead(&mut self, program: &[String]) {
        self.config["process"]["args"] = json!(program);
    }

    /// Makes every container from now on join the namespaces of the process `pid`.
    pub fn join(&mut self, pid: i32) {
        config::join(&mut self.config, pid);
    }

    /// Returns the paths of the containers' files.
    pub fn layout(&self) -> Layout {
        Layout::of(&self.config)
    }

    /// Returns the path of a directory that does not exist yet, and is removed with the stand.
    pub(crate) fn new_directory(&self) -> PathBuf {
        self.directory.join(format!("files-{}", self.serial.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns whether containers have a seccomp profile.
    pub fn has_seccomp(&self) -> bool {
        self.config["linux"]["seccomp"].is_object()
    }

    /// Returns the id and the configuration of a new container.
    pub(crate) fn config(&self) -> (String, Value) {
        let id = format!("bench-{}-{}", getpid(), self.serial.fetch_add(1, Ordering::Relaxed));
        let mut config = self.config.clone();
        config["linux"]["cgroupsPath"] = json!(match &self.slice {
            None => format!("{}/{id}", self.cgroup.path),
            Some(slice) => format!("{slice}:dayfly:{id}"),
        });
        (id, config)
    }

    /// Writes the bundle of a container that runs `program`, or the configuration's program if that is empty. `change`
    /// modifies the configuration. Returns the container's id and the directory of the bundle.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub(crate) fn write_bundle(
        &self,
        program: &[&str],
        change: impl FnOnce(&mut Value),
    ) -> Result<(String, PathBuf), Error> {
        let (id, mut config) = self.config();
        let bundle = self.directory.join(&id);
        make_directory(&bundle, 0o711)?;
        if !program.is_empty() {
            config["process"]["args"] = json!(program);
        }
        change(&mut config);
        let file = bundle.join("config.json");
        fs::write(&file, config.to_string()).map_err(Error::at("write", &file))?;
        Ok((id, bundle))
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.cgroup.clear_all();
        // The state directory is removed last: while it exists, this is a stand with a live owner.
        // A directory without a lock existed before the setup. The setup then failed, and the
        // directory does not belong to this stand.
        let made = [&self.state, &self.directory];
        for directory in made.into_iter().take(self.locks.len()).rev() {
            if let Err(error) = leftover::remove(directory) {
                eprintln!("warning: {error}: \"dayfly bench gc\" tries again");
            }
        }
        // Reap killed orphans.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

fn make_directory(path: &Path, mode: u32) -> Result<(), Error> {
    fs::DirBuilder::new().mode(mode).create(path).map_err(Error::at("make", path))
}

/// Reads the user's configuration. Makes the path of the root filesystem absolute, because config.json is written to
/// another directory, and disables the terminal.
fn read_bundle(bundle: &Path) -> Result<Value, Error> {
    let file = bundle.join("config.json");
    let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
    let mut config: Value =
        serde_json::from_str(&text).map_err(|error| unfit!("{}: {error}", file.display()))?;
    let root = config["root"]["path"].as_str().unwrap_or("rootfs");
    let root = bundle.join(root);
    let root = fs::canonicalize(&root).map_err(Error::at("find root filesystem", &root))?;
    config["root"]["path"] = json!(root);
    config["process"]["terminal"] = json!(false);
    Ok(config)
}
