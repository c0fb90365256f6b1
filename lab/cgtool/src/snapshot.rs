//! `snapshot`: writes the existing groups as a cgroup plan.

use super::account;
use super::group::{Group, Tree};
use super::key;
use crate::options::Snapshot;
use report::{Error, say};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The initial content of a file of a new group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum New {
    /// A fixed value.
    Is(&'static str),
    /// The parent group's value.
    Inherits,
}

/// The writable files of cgroup v1 and v2, and their initial content in a new group.
const SETTABLE: &[(&str, New)] = &[
    ("memory.limit_in_bytes", New::Is("-1")),
    ("memory.memsw.limit_in_bytes", New::Is("-1")),
    ("memory.soft_limit_in_bytes", New::Is("-1")),
    ("memory.swappiness", New::Inherits),
    ("memory.min", New::Is("0")),
    ("memory.low", New::Is("0")),
    ("memory.high", New::Is("max")),
    ("memory.max", New::Is("max")),
    ("memory.swap.max", New::Is("max")),
    ("memory.swap.high", New::Is("max")),
    ("memory.oom.group", New::Is("0")),
    ("cpu.shares", New::Is("1024")),
    ("cpu.cfs_period_us", New::Is("100000")),
    ("cpu.cfs_quota_us", New::Is("-1")),
    ("cpu.cfs_burst_us", New::Is("0")),
    ("cpu.rt_period_us", New::Is("1000000")),
    ("cpu.rt_runtime_us", New::Is("0")),
    ("cpu.weight", New::Is("100")),
    ("cpu.max", New::Is("max 100000")),
    ("cpu.max.burst", New::Is("0")),
    ("cpu.idle", New::Is("0")),
    ("cpu.uclamp.min", New::Is("0.00")),
    ("cpu.uclamp.max", New::Is("max")),
    ("cpuset.mems", New::Inherits),
    ("cpuset.cpus", New::Inherits),
    ("cpuset.cpus.partition", New::Is("member")),
    ("cpuset.cpu_exclusive", New::Is("0")),
    ("cpuset.mem_exclusive", New::Is("0")),
    ("cpuset.mem_hardwall", New::Is("0")),
    ("cpuset.memory_migrate", New::Is("0")),
    ("cpuset.memory_spread_page", New::Is("0")),
    ("cpuset.memory_spread_slab", New::Is("0")),
    ("cpuset.sched_load_balance", New::Is("1")),
    ("cpuset.sched_relax_domain_level", New::Is("-1")),
    ("io.weight", New::Is("default 100")),
    ("io.bfq.weight", New::Is("default 100")),
    ("io.max", New::Is("")),
    ("io.latency", New::Is("")),
    ("blkio.weight", New::Is("500")),
    ("blkio.bfq.weight", New::Is("100")),
    ("blkio.throttle.read_bps_device", New::Is("")),
    ("blkio.throttle.write_bps_device", New::Is("")),
    ("blkio.throttle.read_iops_device", New::Is("")),
    ("blkio.throttle.write_iops_device", New::Is("")),
    ("pids.max", New::Is("max")),
    ("net_cls.classid", New::Is("0")),
    ("rdma.max", New::Is("")),
    ("misc.max", New::Is("")),
    ("cgroup.max.depth", New::Is("max")),
    ("cgroup.max.descendants", New::Is("max")),
];

/// Returns the names of the settable files in a group's directory.
#[must_use]
pub fn settable(directory: &Path) -> Vec<String> {
    let known = SETTABLE.iter().map(|(name, _)| (*name).to_owned());
    let mut files: Vec<String> = known.filter(|name| directory.join(name).is_file()).collect();
    let Ok(entries) = fs::read_dir(directory) else { return files };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    files.extend(names.filter(|name| {
        let is_limit = name.ends_with(".limit_in_bytes") || name.ends_with(".max");
        name.starts_with("hugetlb.") && is_limit && !name.contains(".rsvd.")
    }));
    files
}

/// Writes the groups as a cgroup plan.
///
/// # Errors
/// An unknown group; failing system calls.
pub fn snapshot(options: &Snapshot) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let tops = match options.groups.as_slice() {
        [] => vec![Group::at("/").map_err(Error::refused)?],
        groups => groups.to_vec(),
    };
    let mut text = String::from("# The groups of a host, as dayfly cgroup snapshot found them.\n");
    for top in &tops {
        tree.existing(top)?;
        for group in tree.walk(top).iter().filter(|group| !group.path.is_empty()) {
            text.push_str(&section(&tree, group, options.full));
        }
    }
    match &options.output {
        Some(path) => fs::write(path, text).map_err(Error::of("write", path)),
        None => {
            say!("{text}");
            Ok(())
        }
    }
}

/// Returns the cgroup plan's section for a group; empty if the group has been removed meanwhile.
fn section(tree: &Tree, group: &Group, full: bool) -> String {
    let Ok(directories) = tree.existing(group) else { return String::new() };
    let mut text = format!("\n[group.{}]\n", quoted(&group.path));
    if directories.len() < tree.mounts.len() {
        let has = |directory: &PathBuf| {
            tree.mounts.iter().find(|mount| mount.path.join(&group.path) == *directory)
        };
        let mounts = directories.iter().filter_map(has);
        let names: Vec<String> =
            mounts.filter_map(|mount| mount.controllers.first()).map(|name| quoted(name)).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "controllers = [{}]", names.join(", "));
        }
    }
    if let Some(directory) = directories.first() {
        text.push_str(&belongings(directory));
    }
    for directory in &directories {
        for file in settable(directory) {
            let Ok(value) = fs::read_to_string(directory.join(&file)) else { continue };
            let value = value.trim_end();
            if value.is_empty() || (!full && is_new(directory, &file, value)) {
                continue;
            }
            let lines: Vec<String> = value.lines().map(quoted).collect();
            let value = match lines.as_slice() {
                [line] => line.clone(),
                lines => format!("[{}]", lines.join(", ")),
            };
            let _ = writeln!(text, "{} = {value}", quoted(&file));
        }
    }
    text
}

fn is_new(directory: &Path, file: &str, value: &str) -> bool {
    let new = SETTABLE.iter().find(|(name, _)| *name == file).map(|(_, new)| *new);
    match new {
        Some(New::Is(new)) => key::is_same(file, new, value),
        Some(New::Inherits) => {
            let parent = directory.parent().map(|parent| parent.join(file));
            let above = parent.and_then(|path| fs::read_to_string(path).ok());
            above.is_some_and(|above| key::is_same(file, &above, value))
        }
        // This is a hugetlb file. In a new group, it contains no limit.
        None => key::is_same(file, "max", value),
    }
}

/// Returns the cgroup plan's lines for the owners and modes that differ from those of a group that root has created.
fn belongings(directory: &Path) -> String {
    let mut text = String::new();
    let owner = |path: &Path| {
        let data = fs::metadata(path).ok()?;
        let user = account::name(data.uid(), "/etc/passwd");
        let group = account::name(data.gid(), "/etc/group");
        Some((format!("{user}:{group}"), data.mode() & 0o7777))
    };
    let is_v1 = directory.join("tasks").exists();
    let tasks = directory.join(if is_v1 { "tasks" } else { "cgroup.procs" });
    let (Some(admin), Some(task)) = (owner(directory), owner(&tasks)) else { return text };
    if admin.0 != "root:root" {
        let _ = writeln!(text, "admin = {}", quoted(&admin.0));
    }
    if task.0 != admin.0 {
        let _ = writeln!(text, "task = {}", quoted(&task.0));
    }
    let mut modes = Vec::new();
    if admin.1 != 0o755 {
        modes.push(format!("directory = \"{:04o}\"", admin.1));
    }
    if task.1 != 0o644 {
        modes.push(format!("tasks = \"{:04o}\"", task.1));
    }
    if !modes.is_empty() {
        let _ = writeln!(text, "modes = {{ {} }}", modes.join(", "));
    }
    text
}

/// Formats a basic string of TOML, which is also valid as a key.
fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_toml() {
        assert_eq!(quoted("a\"b\\c\td"), "\"a\\\"b\\\\c\\td\"");
        assert_eq!(quoted("\u{1}"), "\"\\u0001\"");
    }
}
