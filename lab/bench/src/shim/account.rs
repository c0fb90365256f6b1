//! Measures the CPU time of all processes of the experiment except the client.

use crate::harness::*;
use crate::held;

/// The name of containerd's cgroup, which is a child of the test stand's cgroup.
const DAEMON: &str = "daemon";

/// The measured cgroup.
#[derive(Debug)]
pub(super) struct Group {
    /// The test stand's parent cgroup, in the hierarchy that accounts CPU time.
    top: PathBuf,
    /// The file that contains the CPU time, in nanoseconds on v1 and in microseconds on v2.
    file: PathBuf,
    is_nanoseconds: bool,
}

impl Group {
    /// Creates containerd's cgroup below the test stand's cgroup. `path` is the path of that cgroup from the root of
    /// the hierarchy.
    ///
    /// # Errors
    /// No hierarchy accounts CPU time; those of mkdir(2).
    pub(super) fn make(path: &str) -> Result<Self, Error> {
        let view = View::current();
        let accounts = |top: &PathBuf| view == View::V2 || top.join("cpuacct.usage").exists();
        let top = crate::cgroup::tops().into_iter().find(accounts);
        let top = top.ok_or_else(|| unfit!("no cpuacct hierarchy is mounted"))?;
        let top = top.join(path.trim_start_matches('/'));
        let daemon = top.join(DAEMON);
        fs::create_dir_all(&daemon).map_err(Error::at("make cgroup", &daemon))?;
        let file = if view == View::V2 { "cpu.stat" } else { "cpuacct.usage" };
        Ok(Self { file: top.join(file), top, is_nanoseconds: view != View::V2 })
    }

    /// Returns the file to which containerd's process id is written.
    pub(super) fn daemon_procs(&self) -> PathBuf {
        self.top.join(DAEMON).join("cgroup.procs")
    }

    /// Returns the CPU time of all processes that were ever in the cgroup, in milliseconds.
    ///
    /// # Errors
    /// The file can't be read.
    pub(super) fn cpu_ms(&self) -> Result<f64, Error> {
        let text = fs::read_to_string(&self.file).map_err(Error::at("read", &self.file))?;
        Ok(match self.is_nanoseconds {
            true => held::field(&text, "") / 1e6,
            false => held::field(&text, "usage_usec") / 1e3,
        })
    }

    /// Returns the processes in containerd's cgroup except containerd: its shims.
    pub(super) fn shims(&self, daemon: i32) -> Vec<i32> {
        let text = fs::read_to_string(self.daemon_procs()).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != daemon).collect()
    }
}
