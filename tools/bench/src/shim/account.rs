//! CPU time of everything except the client; memory and threads of shims.

use crate::Error;
use crate::cgroup;
use crate::view::View;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of containerd's cgroup, which is a child of the test stand's cgroup.
const DAEMON: &str = "daemon";

/// The measured cgroup.
#[derive(Debug)]
pub(super) struct Group {
    /// The test stand's parent cgroup, in the hierarchy that accounts CPU time.
    top: PathBuf,
    /// The file that contains the CPU time, and its unit.
    file: PathBuf,
    is_nanoseconds: bool,
}

impl Group {
    /// Creates containerd's cgroup below the test stand's cgroup `path`, which starts at the root of the hierarchy.
    ///
    /// # Errors
    /// No hierarchy accounts CPU time; those of mkdir(2).
    pub(super) fn make(path: &str) -> Result<Self, Error> {
        let view = View::current();
        let accounts = |top: &PathBuf| view == View::V2 || top.join("cpuacct.usage").exists();
        let top = cgroup::tops().into_iter().find(accounts);
        let top = top.ok_or_else(|| Error::Unfit("no cpuacct hierarchy is mounted".to_owned()))?;
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
        let number = if self.is_nanoseconds { Some(text.trim()) } else { usage(&text) };
        let number: f64 = number.and_then(|number| number.parse().ok()).unwrap_or(f64::NAN);
        Ok(if self.is_nanoseconds { number / 1e6 } else { number / 1e3 })
    }

    /// Returns the processes in containerd's cgroup except containerd: its shims.
    pub(super) fn shims(&self, daemon: i32) -> Vec<i32> {
        let text = fs::read_to_string(self.daemon_procs()).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != daemon).collect()
    }
}

/// Returns `usage_usec` of cpu.stat.
fn usage(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("usage_usec "))
}

/// The resources of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Held {
    /// Private memory that is not backed by files (Private_Dirty), in KiB.
    pub(super) private_kib: f64,
    /// Resident memory, with shared pages in proportion (PSS), in KiB.
    pub(super) pss_kib: f64,
    /// The number of threads.
    pub(super) threads: f64,
    /// The number of open descriptors.
    pub(super) descriptors: f64,
}

/// Returns the sums over those of the processes `pids` that still exist.
pub(super) fn held(pids: &[i32]) -> Held {
    let mut sum = Held::default();
    for pid in pids {
        let place = Path::new("/proc").join(pid.to_string());
        let rollup = fs::read_to_string(place.join("smaps_rollup")).unwrap_or_default();
        let status = fs::read_to_string(place.join("status")).unwrap_or_default();
        sum.private_kib += field(&rollup, "Private_Dirty:");
        sum.pss_kib += field(&rollup, "Pss:");
        sum.threads += field(&status, "Threads:");
        sum.descriptors += fs::read_dir(place.join("fd")).map_or(0, Iterator::count) as f64;
    }
    sum
}

/// Returns the number that follows a field's name.
fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_something() {
        let one = held(&[std::process::id().cast_signed()]);
        assert!(one.private_kib > 0.0 && one.pss_kib > one.private_kib / 2.0, "{one:?}");
        assert!(one.threads >= 1.0 && one.descriptors >= 3.0, "{one:?}");
        assert_eq!(held(&[i32::MAX]), Held::default());
    }

    #[test]
    fn cgroup2_tells_microseconds() {
        assert_eq!(usage("usage_usec 42\nuser_usec 40\n"), Some("42"));
        assert_eq!(usage("user_usec 40\n"), None);
    }
}
