//! Measurements of the node, on which this process runs.

use crate::harness::*;
use crate::held::{Held, held};

/// The file that contains the CPU time of all processes since the boot, measured by the scheduler's
/// clock: on cgroup v1, the usage of the root of cpuacct.
const ACCOUNT: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage";
/// CPU times since the boot in ticks of 10 ms (USER_HZ is 100 on every architecture that dayfly
/// supports).
const STAT: &str = "/proc/stat";

/// Returns the CPU time of all processes since the boot, in milliseconds.
///
/// # Errors
/// /proc/stat can't be read.
pub(super) fn cpu_ms() -> Result<f64, Error> {
    let exact = fs::read_to_string(ACCOUNT).ok().and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(ns) = exact {
        return Ok(ns / 1e6);
    }
    let text = fs::read_to_string(STAT).map_err(Error::at("read", Path::new(STAT)))?;
    busy_ms(&text).ok_or_else(|| unfit!("{STAT} has no line of all CPUs"))
}

/// Returns the sum of user, nice, system, irq and softirq of /proc/stat (proc_stat(5)), in milliseconds.
fn busy_ms(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6].into_iter().filter_map(|at| ticks.get(at)).sum::<f64>();
    (ticks.len() >= 4).then_some(busy * 10.0)
}

/// Returns the number of mounts that the process `pid` sees.
///
/// # Errors
/// If the process does not exist, or the caller may not read its files in /proc.
pub(super) fn mounts(pid: u32) -> Result<usize, Error> {
    let file = PathBuf::from(format!("/proc/{pid}/mountinfo"));
    let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
    Ok(text.lines().count())
}

/// Returns the processes whose names begin like those of containerd's shims.
pub(super) fn shims() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pid = |entry: fs::DirEntry| -> Option<i32> {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        name.starts_with("containerd-shim").then_some(pid)
    };
    entries.flatten().filter_map(pid).collect()
}

/// Returns the resources of all shims except those in `before`.
pub(super) fn beside(before: &[i32]) -> Held {
    let new: Vec<i32> = shims().into_iter().filter(|pid| !before.contains(pid)).collect();
    held(&new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_without_waiting_are_added() {
        let stat = "cpu  100 10 50 9999 77 3 2 0 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy_ms(stat), Some(1650.0));
        assert_eq!(busy_ms("intr 1\n"), None);
    }

    #[test]
    fn this_host_accounts_and_mounts() {
        assert!(cpu_ms().expect("CPU time") > 0.0);
        assert!(mounts(std::process::id()).expect("mounts") > 0);
        assert!(mounts(u32::MAX).is_err());
    }
}
