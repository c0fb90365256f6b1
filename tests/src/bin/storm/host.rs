//! The state of the host before and after the storm.

use crate::kinds::Kinds;
use dayfly_tests::bed::Bed;
use dayfly_tests::view::View;
use dayfly_tests::{cgroups, leak};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All mounts, and everything else that belongs to the storm: cgroups, processes, records, descriptors, files of
/// layers. Each item has its number of occurrences.
pub struct Host(BTreeMap<String, usize>);

impl Host {
    pub fn look(bed: &Bed, kinds: &Kinds, name: &str) -> Self {
        let mut all = Vec::new();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        all.extend(mounts.lines().map(|line| format!("mount {line}")));
        for hierarchy in cgroups::hierarchies(bed.view) {
            all.extend(names(&hierarchy.join(name)).map(|path| format!("cgroup {path}")));
        }
        all.extend(processes(name));
        all.extend(names(&bed.root()).map(|path| format!("record {path}")));
        let open = leak::descriptors(std::process::id().cast_signed());
        all.extend(open.into_iter().map(|what| format!("descriptor {}", without_number(&what))));
        all.extend(kinds.layers.left().into_iter().map(|what| format!("layers: {what}")));
        let mut counts = BTreeMap::new();
        for one in all {
            *counts.entry(one).or_default() += 1;
        }
        Self(counts)
    }

    /// Returns the differences from the present state: what has appeared and what has disappeared.
    pub fn changes(&self, bed: &Bed, kinds: &Kinds, name: &str) -> Vec<String> {
        let now = Self::look(bed, kinds, name);
        let more = |here: &Self, there: &Self, what: &str| -> Vec<String> {
            let count = |one: &String| there.0.get(one).copied().unwrap_or(0);
            let all = here.0.iter().filter(|(one, times)| **times > count(one));
            all.map(|(one, times)| format!("{what} ({times} for {}): {one}", count(one))).collect()
        };
        let mut changes = more(&now, self, "left");
        changes.append(&mut more(self, &now, "gone"));
        changes
    }
}

/// Strips the inode of a pipe or socket, which differs each time.
fn without_number(what: &str) -> &str {
    what.split_once(":[").map_or(what, |(kind, _)| kind)
}

/// Returns the names in a directory, which may be missing. For a cgroup, returns only the names of directories.
fn names(dir: &Path) -> impl Iterator<Item = String> {
    let is_cgroup = dir.join("cgroup.procs").exists();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(move |entry| !is_cgroup || entry.path().is_dir());
    entries.map(|entry| entry.path().display().to_string())
}

/// Returns the processes in the storm's cgroups, and those with the storm's name in their command line.
fn processes(name: &str) -> Vec<String> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    let mut found = Vec::new();
    for pid in numbers.filter(|pid| *pid != own && !leak::is_zombie(*pid)) {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let cgroup = String::from_utf8_lossy(&read("cgroup")).into_owned();
        if command.contains(name) || cgroup.contains(name) {
            found.push(format!("process {pid}: {command}"));
        }
    }
    found
}

/// Removes the parent cgroups of the containers' cgroups: the runtime does not remove parents.
pub fn remove_parents(view: View, name: &str) {
    for hierarchy in cgroups::hierarchies(view) {
        let _ = fs::remove_dir(hierarchy.join(name));
    }
}
