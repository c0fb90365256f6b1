//! Finds resources that a container has left behind.

use crate::cache::CACHE;
use crate::cgroups;
use crate::view::View;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Returns every trace of the containers `ids` and of the directory `bed`: mounts, cgroups, processes. Empty if there
/// is no trace.
#[must_use]
pub fn find(view: View, bed: &Path, ids: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let bed = bed.to_string_lossy();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // Mounts in dayfly's cache are ignored. If a case uses a copy of the runtime in this directory, the cache has a
    // mount of that copy, which the runtime itself evicts.
    let left = |line: &&str| line.contains(&*bed) && !line.contains(CACHE);
    for line in mounts.lines().filter(left) {
        found.push(format!("mount left behind: {line}"));
    }
    for dir in cgroups_of(view, ids) {
        found.push(format!("cgroup left behind: {}", dir.display()));
    }
    for (pid, id) in processes(ids) {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        found.push(format!("process left behind: {pid} of {id}: {}", command.replace('\0', " ")));
    }
    found
}

/// Returns the cgroups of these containers that exist, in every hierarchy. The directories are read, and not looked for
/// by name: a container whose configuration names no cgroup has one outside of [`cgroups::PARENT`].
fn cgroups_of(view: View, ids: &[String]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for hierarchy in cgroups::hierarchies(view) {
        // A container without a cgroupsPath is in the caller's own cgroup.
        let own = cgroups::own(&hierarchy);
        let parents = [hierarchy.join(cgroups::PARENT.trim_start_matches('/')), own, hierarchy];
        for parent in parents.iter().collect::<BTreeSet<_>>() {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                // The common parent of a template's cgroup and those of its containers has the template's name.
                let name = name.strip_suffix(".template").unwrap_or(&name);
                if ids.iter().any(|id| id == name) {
                    found.push(entry.path());
                }
            }
        }
    }
    found
}

/// The cgroups of all hierarchies at the beginning of the run.
#[derive(Debug)]
pub struct Cgroups {
    view: View,
    before: BTreeSet<PathBuf>,
}

impl Cgroups {
    /// Returns the present cgroups.
    #[must_use]
    pub fn look(view: View) -> Self {
        Self { view, before: all_cgroups(view) }
    }

    /// Returns the cgroups that the run has left: those that are new and have the name of one of its containers, or are
    /// below [`cgroups::PARENT`] and belong to no other run. A case checks only its own containers, and only once. Gives
    /// processes that are exiting a moment.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let own = format!("df{}-", std::process::id());
        let is_left = |path: &PathBuf| {
            let of_other = |name: &str| {
                let number = name.strip_prefix("df").and_then(|rest| rest.split_once('-'));
                number.is_some_and(|(pid, _)| pid.parse::<u32>().is_ok()) && !name.starts_with(&own)
            };
            let path = path.to_string_lossy();
            let mut names = path.split('/');
            // Another run may need the parent itself.
            let is_below = path.contains(&format!("{}/", cgroups::PARENT));
            path.contains(&own) || is_below && !names.any(of_other)
        };
        let begin = Instant::now();
        loop {
            let now = all_cgroups(self.view);
            let new = now.difference(&self.before).filter(|path| is_left(path));
            let left: Vec<String> = new.map(|path| path.display().to_string()).collect();
            if left.is_empty() || begin.elapsed() >= crate::wait::patience() / 4 {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn all_cgroups(view: View) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut open = cgroups::hierarchies(view);
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for path in below.map(|entry| entry.path()) {
            open.push(path.clone());
            all.insert(path);
        }
    }
    all
}

/// Returns every process in a cgroup named after one of `ids`, or with one of them in its command line.
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
        // Zombies are checked last, because reading the state is the slowest of these reads in /proc.
        if let Some(id) = owner.filter(|_| !is_zombie(pid)) {
            found.push((pid, id.clone()));
        }
    }
    found
}

/// Returns whether `pid` has exited and its parent has not yet waited for it.
#[must_use]
pub fn is_zombie(pid: i32) -> bool {
    state(pid) == Some('Z')
}

/// Returns the state of `pid`'s main thread, a letter in /proc/PID/stat; `None` if the process does not exist.
#[must_use]
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Kills the processes and removes the cgroups that [`find`] would return, so that a failed case does not make others
/// fail.
pub fn sweep(view: View, ids: &[String]) {
    let begin = Instant::now();
    loop {
        let left = processes(ids);
        for (pid, id) in &left {
            if let Some(pid) = rustix::process::Pid::from_raw(*pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            if view != View::V2 {
                // A process in a frozen v1 cgroup ends only after a thaw. Each round thaws the cgroup, because a
                // command may have frozen it again.
                let freezer = cgroups::dir(view, "freezer", &cgroups::path_of(id));
                let _ = fs::write(freezer.join("freezer.state"), "THAWED");
            }
        }
        // A killed process leaves its cgroups a moment after it has disappeared from /proc, so that a removal may fail.
        let cgroups = cgroups_of(view, ids);
        cgroups.iter().for_each(|path| remove_tree(path));
        if left.is_empty() && cgroups.is_empty() || begin.elapsed() >= crate::wait::patience() / 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Removes a cgroup and its descendants.
fn remove_tree(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        remove_tree(&entry.path());
    }
    let _ = fs::remove_dir(dir);
}

/// The parts of the host that no container should change: the mount table, the names in /run, and dayfly's cache.
/// Cached filters are left out, because they come and go.
#[derive(Debug, PartialEq, Eq)]
pub struct Host {
    entries: Vec<String>,
}

impl Host {
    /// Returns the present state of the host.
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

    /// Returns the differences from the present state: what has appeared and what has disappeared.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let now = Self::look();
        let new = now.entries.iter().filter(|entry| !self.entries.contains(entry));
        let gone = self.entries.iter().filter(|entry| !now.entries.contains(entry));
        let new = new.map(|entry| format!("new: {entry}"));
        new.chain(gone.map(|entry| format!("gone: {entry}"))).collect()
    }
}

/// The directory of pinned device programs: one program for each list of rules, shared by all containers with that
/// list.
const PINS: &str = "/run/dayfly-cache/mounts/bpf/device";

/// Returns the link targets of the process's descriptors, except standard input, output and error.
#[must_use]
pub fn descriptors(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = entries.filter(|entry| !["0", "1", "2"].iter().any(|std| entry.file_name() == *std));
    open.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect()
}
