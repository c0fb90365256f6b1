//! The rounds of `bulk` with Podman, which executes the runtimes. The times are those of
//! `podman create`, `podman start` and `podman rm`.

use super::{Bulk, Round};
use crate::concurrent;
use crate::harness::*;
use crate::stand::Source;

/// The factor by which the deadline of a Podman command exceeds the deadline of a runtime's command.
const LONGER: u32 = 6;

/// A Podman whose storage, state and configuration belong to the experiment, not to the host.
#[derive(Debug)]
pub(super) struct Podman {
    /// The directory of its storage and its configuration.
    directory: PathBuf,
    /// The directory of its state, on a tmpfs.
    state: PathBuf,
    /// The root filesystem of all containers.
    rootfs: PathBuf,
    /// The parent of the containers' cgroups.
    cgroup: String,
    deadline: Duration,
}

impl Podman {
    /// Writes Podman's configuration into the stand.
    ///
    /// # Errors
    /// There is no podman in `$PATH`; the options name a bundle, whose configuration Podman would not read; those of
    /// mkdir(2) and write(2).
    pub(super) fn set_up(stand: &Stand) -> Result<Self, Error> {
        if report::program::in_path("podman").is_none() {
            bail!("no podman in $PATH");
        }
        if matches!(stand.source, Source::Bundle(_)) {
            bail!("--podman makes configurations itself: leave --bundle out");
        }
        let podman = Self {
            directory: stand.new_directory(),
            state: stand.state.join("podman"),
            rootfs: stand.directory.join("rootfs"),
            cgroup: stand.cgroup.path.to_owned(),
            deadline: LONGER * stand.deadline,
        };
        for directory in [&podman.directory, &podman.state] {
            fs::create_dir(directory).map_err(Error::at("make", directory))?;
        }
        let file = podman.configuration();
        fs::write(&file, configuration(can_limit("pids"))).map_err(Error::at("write", &file))?;
        Ok(podman)
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("containers.conf")
    }

    /// Returns a `podman` command line with Podman's global options, which select `runtime` and the experiment's
    /// directories. The caller adds the subcommand.
    fn command(&self, runtime: &Path) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(self.directory.join("storage"));
        command.arg("--runroot").arg(self.state.join("run"));
        command.arg("--tmpdir").arg(self.state.join("tmp"));
        command.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]);
        command.args(["--events-backend", "none", "--runtime"]).arg(runtime);
        command.env("CONTAINERS_CONF", self.configuration());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Returns the command that creates the container `name`.
    fn create(&self, runtime: &Path, name: &str, limits: bool) -> Command {
        let mut command = self.command(runtime);
        command.args(["create", "--network", "none", "--log-driver", "none", "--name", name]);
        command.args(["--cgroup-parent", &self.cgroup]);
        if limits {
            command.args(["--cpus", "2", "-m", "4g"]);
        }
        command.arg("--rootfs").arg(&self.rootfs).arg("/bin/true");
        command
    }

    /// Executes a command, and returns its duration.
    fn execute(&self, mut command: Command) -> Result<f64, Error> {
        let sample = process::run_and_hear(&mut command, self.deadline);
        let failed = |reason| Error::Out(format!("podman: {reason}"));
        sample.map(|sample| sample.wall.as_secs_f64()).map_err(failed)
    }

    /// Creates all containers, starts them, and removes all of them with one `podman rm`.
    ///
    /// # Errors
    /// An interrupt. The inner error is Podman's or the runtime's.
    pub(super) fn round(
        &self,
        entrant: &Entrant,
        options: &Bulk,
        width: usize,
    ) -> Result<Round, Error> {
        let runtime = &entrant.runtime.path;
        let names: Vec<String> = (0..options.count).map(|at| format!("bench-{at}")).collect();
        let create = |name: &String| {
            interrupt::check()?;
            self.execute(self.create(runtime, name, options.limits))
        };
        let created: Result<f64, Error> = names.iter().map(create).sum();
        let start = |(): &mut (), name: &String| {
            let mut command = self.command(runtime);
            command.args(["start", name]);
            Ok(self.execute(command)? * 1e6)
        };
        let started =
            created.map(|create_s| (create_s, concurrent::work(vec![(); width], &names, start)));
        let begin = Instant::now();
        self.remove_all(runtime);
        let delete_s = begin.elapsed().as_secs_f64();
        interrupt::check()?;
        let (create_s, (time, starts)) = started?;
        let starts_us = starts.into_iter().collect::<Result<_, Error>>()?;
        Ok(Round { create_s, start_s: time.as_secs_f64(), delete_s, starts_us })
    }

    /// Removes all containers. While the command runs, this process reaps the containers' monitors, which it has
    /// adopted.
    fn remove_all(&self, runtime: &Path) {
        let mut command = self.command(runtime);
        command.args(["rm", "--all", "--force", "--time", "0"]).stderr(Stdio::null());
        process::run_and_reap(&mut command, self.deadline);
    }
}

/// Returns Podman's configuration. The ulimits are low, because not every host allows Podman's defaults. Without a pids
/// controller, there is no limit of pids. The locks are files that belong to this Podman, because all Podmans of a host
/// share the default locks.
fn configuration(has_pids: bool) -> String {
    let pids = if has_pids { "" } else { "pids_limit = 0\n" };
    format!(
        "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n{pids}[engine]\nlock_type = \"file\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_created_like_the_articles() {
        let podman = Podman {
            directory: PathBuf::from("/d"),
            state: PathBuf::from("/s"),
            rootfs: PathBuf::from("/r"),
            cgroup: "/bench".to_owned(),
            deadline: Duration::from_secs(1),
        };
        let words = |limits| {
            let command = podman.create(Path::new("/bin/x"), "one", limits);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert!(words(true).contains("--runtime /bin/x create --network none"), "{}", words(true));
        assert!(words(true).ends_with("--cpus 2 -m 4g --rootfs /r /bin/true"), "{}", words(true));
        assert!(!words(false).contains("--cpus"));
        assert!(words(false).contains("--root /d/storage --runroot /s/run --tmpdir /s/tmp"));
        assert!(!configuration(true).contains("pids") && configuration(false).contains("pids"));
    }
}
