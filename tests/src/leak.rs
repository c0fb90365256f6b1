//! What a container must not leave behind.

use crate::cgroups;
use crate::view::View;
use std::fs;
use std::path::Path;

/// Names every trace of the containers `ids` and of the directory `bed`:
/// mounts, cgroups, processes. Empty when there is none.
#[must_use]
pub fn find(view: View, bed: &Path, ids: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let bed = bed.to_string_lossy();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // What the cache keeps of a runtime that was copied to the bed makes room for others by itself.
    let left = |line: &&str| line.contains(&*bed) && !line.contains(CACHE);
    for line in mounts.lines().filter(left) {
        found.push(format!("mount left behind: {line}"));
    }
    for hierarchy in cgroups::hierarchies(view) {
        for id in ids {
            let dir = hierarchy.join(cgroups::path_of(id).trim_start_matches('/'));
            if dir.exists() {
                found.push(format!("cgroup left behind: {}", dir.display()));
            }
        }
    }
    for (pid, id) in processes(ids) {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        found.push(format!("process left behind: {pid} of {id}: {}", command.replace('\0', " ")));
    }
    found
}

/// Every process that is in a cgroup named after one of `ids`, or that carries
/// one of them in its command line.
#[must_use]
pub fn processes(ids: &[String]) -> Vec<(i32, String)> {
    if ids.is_empty() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let me = std::process::id();
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if pid.unsigned_abs() == me {
            continue;
        }
        let cgroup = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let owner = ids.iter().find(|id| {
            cgroup.split(['/', '\n']).any(|part| part == id.as_str())
                || command.split('\0').any(|word| word == id.as_str())
        });
        // Asked last: of all that /proc tells of a process it takes the longest.
        if let Some(id) = owner.filter(|_| !is_zombie(pid)) {
            found.push((pid, id.clone()));
        }
    }
    found
}

/// Whether `pid` has exited and only waits for its parent.
#[must_use]
pub fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

/// Kills and removes whatever [`find`] would name; for a case that failed, so
/// that it does not fail others.
pub fn sweep(view: View, ids: &[String]) {
    for (pid, _) in processes(ids) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    let begin = std::time::Instant::now();
    while !processes(ids).is_empty() && begin.elapsed() < crate::wait::patience() / 4 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    for hierarchy in cgroups::hierarchies(view) {
        for id in ids {
            remove_tree(&hierarchy.join(cgroups::path_of(id).trim_start_matches('/')));
        }
    }
}

/// Removes a cgroup and those below it.
fn remove_tree(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        remove_tree(&entry.path());
    }
    let _ = fs::remove_dir(dir);
}

/// What of the host a container has no business to change: the mount table, what is in /run, and what dayfly
/// keeps between starts. Filters come and go there by themselves.
#[derive(Debug, PartialEq, Eq)]
pub struct Host {
    entries: Vec<String>,
}

impl Host {
    /// The host as it is now.
    #[must_use]
    pub fn look() -> Self {
        let mut entries: Vec<String> = Vec::new();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        entries.extend(mounts.lines().map(|line| format!("mount {line}")));
        for directory in ["/run", CACHE, "/run/dayfly-cache/mounts", PINS, "/dev/shm"] {
            let listed = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.extend(listed.map(|entry| format!("file {}", entry.path().display())));
        }
        entries.sort_unstable();
        Self { entries }
    }

    /// What is there now and was not before, and the other way round.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let now = Self::look();
        let new = now.entries.iter().filter(|entry| !self.entries.contains(entry));
        let gone = self.entries.iter().filter(|entry| !now.entries.contains(entry));
        let new = new.map(|entry| format!("new: {entry}"));
        new.chain(gone.map(|entry| format!("gone: {entry}"))).collect()
    }
}

/// What dayfly keeps between starts.
const CACHE: &str = "/run/dayfly-cache";
/// Where device programs are pinned: one for each list of rules, whatever containers have it.
const PINS: &str = "/run/dayfly-cache/mounts/bpf/device";

/// What the process has open besides standard input, output and error, by what it is.
#[must_use]
pub fn descriptors(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = entries.filter(|entry| !["0", "1", "2"].iter().any(|std| entry.file_name() == *std));
    open.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect()
}
