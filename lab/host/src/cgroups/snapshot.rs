//! `snapshot`: writes the existing groups as a cgroup plan.

use super::group::{Group, Mount, Tree, entries};
use super::key;
use crate::cgroups::options::Snapshot;
use crate::{account, output};
use report::Error;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the names of the settable files in a group's directory.
pub fn settable(directory: &Path) -> Vec<String> {
    let known = key::settable().iter().map(|known| known.file.clone());
    let mut files: Vec<String> = known.filter(|name| directory.join(name).is_file()).collect();
    files.extend(entries(directory, fs::FileType::is_file).into_iter().filter(|name| {
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
        [] => vec![Group::at("/")?],
        groups => groups.to_vec(),
    };
    let mut text = String::from("# The groups of a host, as dayfly cgroup snapshot found them.\n");
    for top in &tops {
        tree.existing(top)?;
        for group in tree.walk(top).iter().filter(|group| !group.path.is_empty()) {
            text.push_str(&section(&tree, group, options.full));
        }
    }
    output::write(options.output.as_deref(), &text)
}

/// Returns the cgroup plan's section for a group; empty if the group has been removed meanwhile.
fn section(tree: &Tree, group: &Group, full: bool) -> String {
    let Ok(directories) = tree.existing(group) else { return String::new() };
    let mut text = format!("\n[group.{}]\n", quoted(&group.path));
    if directories.len() < tree.mounts.len() {
        let places = tree.places(group).filter(|(_, directory)| directories.contains(directory));
        let first = |(mount, _): (&Mount, _)| Some(quoted(mount.controllers.first()?));
        let names: Vec<String> = places.filter_map(first).collect();
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

/// Returns whether a file of a group has the content that it has in a new group.
fn is_new(directory: &Path, file: &str, value: &str) -> bool {
    let new = match key::settable().iter().find(|known| known.file == file) {
        Some(known) => {
            known.new.clone().or_else(|| fs::read_to_string(directory.parent()?.join(file)).ok())
        }
        // This is a hugetlb file. In a new group, it contains no limit.
        None => Some("max".to_owned()),
    };
    new.is_some_and(|new| key::is_same(file, &new, value))
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

/// Formats a basic string of TOML, which is also valid as a key. The strings of JSON have the same form, but may contain
/// DEL.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string().replace('\x7f', "\\u007F")
}
