//! The resources in use while a container is idle.

use crate::figures::Sample;
use crate::harness::*;
use crate::held::{self, charged};
use crate::race::asleep;
use std::os::unix::fs::MetadataExt;

/// Examines a sleeping container after its runtime's commands have ended.
///
/// # Errors
/// Errors of the harness itself; the runtime's.
pub(super) fn look(stand: &Stand, entrant: &Entrant) -> Result<Sample, Error> {
    let container = asleep(stand, entrant)?;
    let sample = observe(stand, entrant, &container);
    container.kill()?;
    container.exit()?;
    container.delete()?;
    sample.ok_or_else(|| Error::Out("the container has no process".to_owned()))
}

fn observe(stand: &Stand, entrant: &Entrant, container: &Container<'_>) -> Option<Sample> {
    let own = container.pid()?.as_raw_pid();
    let beside = held::descendants(own);
    // The sum begins at +0, because the sum of an empty iterator of floats is −0.
    let private = beside.iter().fold(0.0, |sum, &pid| sum + private_kib(pid));
    let state = blocks(&entrant.runtime.state_root(&stand.state)) as f64 / 2.0;
    let mut sample = vec![
        ("idle: processes beside the container's".to_owned(), "processes", beside.len() as f64),
        ("idle: their private memory".to_owned(), "KiB", private),
        ("idle: files of state".to_owned(), "KiB", state),
    ];
    let bytes = charged(own).and_then(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    let name = "idle: charged to the container's cgroup".to_owned();
    sample.extend(bytes.map(|bytes: f64| (name, "KiB", bytes / 1024.0)));
    Some(sample)
}

/// Returns a process's private resident memory (proc_pid_smaps(5)).
fn private_kib(pid: i32) -> f64 {
    ["Private_Clean:", "Private_Dirty:"]
        .map(|name| held::of(pid, "smaps_rollup", name))
        .iter()
        .sum()
}

/// Returns the number of 512-byte blocks of all files in a directory and its subdirectories. Mounts in it are not
/// counted.
fn blocks(directory: &Path) -> u64 {
    let Ok(own) = fs::symlink_metadata(directory) else { return 0 };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries.filter_map(|entry| {
        let stat = entry.metadata().ok().filter(|stat| stat.dev() == own.dev())?;
        Some(if stat.is_dir() { blocks(&entry.path()) } else { stat.blocks() })
    });
    own.blocks() + below.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    #[expect(clippy::zombie_processes, reason = "process::wait is what reaps it")]
    fn what_a_runtime_leaves_is_seen() {
        let child = Command::new("/bin/sleep").arg("60").spawn().expect("sleep");
        let pid = child.id().cast_signed();
        let found = |without| held::descendants(without).contains(&pid);
        assert!(found(0));
        assert!(!found(pid), "the container's own");
        assert!(private_kib(pid) > 0.0);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
        process::wait(pid, Duration::from_secs(10)).expect("its end");
        assert!(!found(0));
    }
}
