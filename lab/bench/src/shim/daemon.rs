//! A containerd with its own root, state, sockets, cgroup and network namespace, which ends with the experiment.

use super::account::Group;
use super::{Shim, image, minder};
use crate::harness::*;
use crate::runtime;
use crate::view::Cover;
use rustix::process::{WaitOptions, set_parent_process_death_signal, wait};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use sys::clone::CloneFlags;

/// The hidden command that becomes containerd.
pub const BECOME: &str = "shim-daemon";
/// The directory where containerd and shims keep sockets and FIFOs regardless of their configuration.
const RUN: &str = "/run/containerd";
/// The file for ctr's errors.
const ERRORS: &str = "errors";
/// The time that containerd may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// The start of containerd: `shim-daemon`.
#[derive(Debug, Args)]
pub struct ShimDaemon {
    /// The cgroup.procs file of the cgroup to enter
    #[arg(long)]
    pub procs: PathBuf,
    /// The program and its arguments
    #[arg(last = true)]
    pub program: Vec<String>,
}

/// Enters a cgroup, arranges that this process ends with its parent, and executes a program in a network namespace of
/// its own.
///
/// # Errors
/// Those of write(2), prctl(2), unshare(2), execve(2); the function returns only with an error.
pub fn become_daemon(options: &ShimDaemon) -> Result<(), Error> {
    let procs = &options.procs;
    fs::write(procs, std::process::id().to_string()).map_err(Error::at("write", procs))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Error::errno(
        "set the signal of a parent's death of",
        Path::new("this process"),
    ))?;
    let program = Path::new(options.program.first().map_or("", String::as_str));
    // Abstract sockets belong to the network namespace.
    sys::ns::unshare(CloneFlags::NEWNET)
        .map_err(Error::errno("unshare the network of", program))?;
    let error = Command::new(program).args(options.program.iter().skip(1)).exec();
    Err(Error::at("execute", program)(error))
}

/// A running containerd. It is killed with all of its shims when dropped.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    /// containerd's directory for sockets, state and configuration.
    place: PathBuf,
    /// $PATH, including containerd's programs.
    path: OsString,
    ctr: PathBuf,
    /// The containerd namespace, which is also part of cgroup names.
    namespace: String,
    /// The version that containerd prints.
    pub(super) version: String,
    /// The deadline of a command.
    pub(super) deadline: Duration,
    /// The measured cgroup.
    pub(super) group: Group,
    _run: Cover,
}

impl Daemon {
    /// Starts containerd, with or without the CRI, and imports the images.
    ///
    /// # Errors
    /// No containerd, or one that does not start.
    pub(super) fn start(
        options: &Shim,
        stand: &Stand,
        entrants: &[Entrant],
        with_cri: bool,
    ) -> Result<Self, Error> {
        let bin = programs(options)?;
        let name = if with_cri { "cri" } else { "plain" };
        let place = stand.state.join(name);
        let root = stand.directory.join(name);
        // containerd watches the directory of network configurations, which is empty.
        for directory in [&place, &root, &place.join("cni")] {
            fs::create_dir(directory).map_err(Error::at("make", directory))?;
        }
        // In the experiment's own mount namespace.
        let run = Cover::of(RUN, c"mode=711")?;
        let path = path(&bin, &place, entrants)?;
        let config = place.join("config.toml");
        fs::write(&config, configuration(&place, &root, entrants, with_cri))
            .map_err(Error::at("write", &config))?;
        let log = place.join("log");
        let log = File::create(&log).map_err(Error::at("create", &log))?;
        let errors = log.try_clone().map_err(Error::at("duplicate", &place.join("log")))?;
        let group = Group::make(&stand.cgroup.path)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(BECOME).arg("--procs").arg(group.daemon_procs()).arg("--");
        command.arg(bin.join("containerd")).arg("--config").arg(&config).env("PATH", &path);
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let child = command.spawn().map_err(Error::at("execute", &bin.join("containerd")))?;
        let namespace = stand.cgroup.path.trim_start_matches('/').to_owned();
        let version = runtime::version(&bin.join("containerd"));
        let ctr = bin.join("ctr");
        let deadline = stand.deadline;
        let daemon =
            Self { child, place, path, ctr, namespace, version, deadline, group, _run: run };
        daemon.come_up()?;
        let archive = root.join("images.tar");
        if !archive.exists() {
            image::make(&stand.directory.join("rootfs"), &root)?;
        }
        for namespace in [&*daemon.namespace].into_iter().chain(with_cri.then_some("k8s.io")) {
            let mut import = daemon.ctr_in(namespace);
            import.args(["image", "import"]).arg(&archive).stdout(Stdio::null());
            daemon.succeed(&mut import)?;
        }
        Ok(daemon)
    }

    fn come_up(&self) -> Result<(), Error> {
        let due = Instant::now() + PATIENCE;
        loop {
            interrupt::check()?;
            let mut version = self.ctr();
            version.arg("version").stdout(Stdio::null());
            match process::run(&mut version, Duration::from_secs(5)) {
                Ok(_) => return Ok(()),
                Err(_) if Instant::now() < due => sleep(Duration::from_millis(50)),
                Err(failure) => {
                    let log = fs::read_to_string(self.place.join("log")).unwrap_or_default();
                    let last = log.lines().last().unwrap_or_default();
                    bail!("containerd does not answer: {failure}: {last}");
                }
            }
        }
    }

    fn succeed(&self, command: &mut Command) -> Result<(), Error> {
        process::run(command, PATIENCE)
            .map(drop)
            .map_err(|failure| unfit!("ctr of {}: {failure}", self.version))
    }

    /// Returns a ctr command, in the experiment's namespace.
    pub(super) fn ctr(&self) -> Command {
        self.ctr_in(&self.namespace)
    }

    fn ctr_in(&self, namespace: &str) -> Command {
        let mut command = Command::new(&self.ctr);
        command.arg("--address").arg(self.socket()).args(["--namespace", namespace]);
        command.env("PATH", &self.path).env("CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS", "1");
        command.stdin(Stdio::null());
        let errors = File::create(self.place.join(ERRORS));
        command.stderr(errors.map_or_else(|_| Stdio::null(), Stdio::from));
        command
    }

    /// Returns the error message of the last ctr command.
    pub(super) fn complaint(&self) -> String {
        let text = fs::read_to_string(self.place.join(ERRORS)).unwrap_or_default();
        text.lines().last().unwrap_or_default().to_owned()
    }

    /// Returns containerd's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.place.join("containerd.sock")
    }

    /// Returns containerd's process id.
    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Returns whether containerd's version is 2 or later.
    pub(super) fn is_two(&self) -> bool {
        let number = self
            .version
            .split_whitespace()
            .find_map(|word| word.trim_start_matches('v').split_once('.')?.0.parse::<u32>().ok());
        number.is_some_and(|number| number >= 2)
    }

    /// Returns the processes of shims.
    pub(super) fn shims(&self) -> Vec<i32> {
        self.group.shims(self.pid())
    }

    /// Reaps exited shims: orphans become this process's children.
    pub(super) fn reap(&self) {
        while let Ok(Some((pid, _))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_pid() == self.pid() {
                return;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        process::end(&mut self.child, Duration::from_secs(5));
        // Kills shims and runtimes until none is left: a live process may create further processes and cgroups.
        let due = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.shims();
            for pid in left.iter().copied().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            if left.is_empty() || Instant::now() > due {
                break;
            }
            sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the directory of containerd's programs.
fn programs(options: &Shim) -> Result<PathBuf, Error> {
    if let Some(directory) = &options.containerd {
        return fs::canonicalize(directory).map_err(Error::at("find containerd in", directory));
    }
    let built = built("containerd2").filter(|directory| directory.join("containerd").is_file());
    let installed = || report::program::in_path("containerd")?.parent().map(Path::to_owned);
    built
        .or_else(installed)
        .ok_or_else(|| unfit!("no containerd: name the directory of its programs by --containerd"))
}

/// Returns the path of a program that the scripts have built, in `build` beside this program's build directory.
pub(super) fn built(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.ancestors().nth(3)?.join("build").join(name))
}

/// Returns $PATH, extended by the directories of containerd's programs and of a link to dayfly's shim. The link has the
/// name that containerd looks for.
fn path(bin: &Path, place: &Path, entrants: &[Entrant]) -> Result<OsString, Error> {
    let links = place.join("bin");
    fs::create_dir(&links).map_err(Error::at("make", &links))?;
    if let Some(own) = entrants.iter().find(|entrant| minder::is_own(entrant)) {
        let link = links.join(minder::PROGRAM);
        symlink(&own.runtime.path, &link).map_err(Error::at("link", &link))?;
    }
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = [links, bin.to_owned()].into_iter().chain(std::env::split_paths(&rest));
    std::env::join_paths(all).map_err(|error| unfit!("$PATH: {error}"))
}

fn configuration(place: &Path, root: &Path, entrants: &[Entrant], with_cri: bool) -> String {
    let text = match with_cri {
        false => include_str!("plain.toml").to_owned(),
        true => {
            let runtimes = entrants.iter().map(minder::cri_table);
            include_str!("cri.toml").replace("@pause@", image::PAUSE)
                + &runtimes.collect::<String>()
        }
    };
    let [place, root] = [place, root].map(|directory| directory.display().to_string());
    text.replace("@place@", &place).replace("@root@", &root)
}
