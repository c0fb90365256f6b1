//! Reads the values of groups on this host, and determines the writes that set them.

use super::error::suggest;
use super::group::{Group, Mount, Tree, Version, entries};
use super::journal::Write;
use super::key::{self, Assign};
use cgroup::weight::blkio_weight;
use report::Error;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use topology::{List, Topology};

/// The values that are about to be written, by file. Values that depend on one of these files are computed from the
/// value that is about to be written.
pub type Pending = BTreeMap<PathBuf, String>;

/// Returns the hierarchy that contains the file `key`.
///
/// # Errors
/// No mounted hierarchy has the file, or no controller has a file of this name.
pub fn home<'a>(tree: &'a Tree, group: &Group, key: &str) -> Result<&'a Mount, Error> {
    let homes = key::homes(key);
    match homes.iter().find_map(|name| tree.home(name)) {
        Some(mount) => Ok(mount),
        None if key::is_known(key) => Err(tree.no_controller(homes[0])),
        None => Err(unknown(tree, group, key)),
    }
}

/// Returns the writes that set `key` of `group` to `value`. The group need not exist yet.
///
/// # Errors
/// A key that is misspelt or not available here; an invalid value.
pub fn resolve(
    tree: &Tree,
    group: &Group,
    (key, value): (&str, &str),
    pending: &Pending,
) -> Result<Vec<Write>, Error> {
    if matches!(key, "cgroup.procs" | "cgroup.threads" | "tasks") {
        return Err(refused!("{key} is not a value to set")
            .advise("\"dayfly cgroup classify\" moves processes"));
    }
    let mount = home(tree, group, key)?;
    let directory = mount.path.join(&group.path);
    let present = |file: &str| {
        let path = directory.join(file);
        let planned = pending.get(&path).cloned();
        planned.or_else(|| fs::read_to_string(&path).ok()).or_else(|| fresh(file))
    };
    let all = key::assign(key, value, mount.version, &present)?;
    let mut writes = Vec::new();
    for assign in all {
        let assign = with_bfq(&directory, assign);
        let file = directory.join(&assign.file);
        if !file.exists() && (directory.is_dir() || !key::is_known(key)) {
            return Err(missing(tree, group, mount, key, &assign.file));
        }
        writes.push(Write { file, value: assign.value, source: String::new() });
    }
    Ok(writes)
}

/// Returns the value of `key` of `group`; `key` is the file's v1 or v2 name.
///
/// # Errors
/// As [`resolve`].
pub fn read(tree: &Tree, group: &Group, key: &str) -> Result<String, Error> {
    let mount = home(tree, group, key)?;
    let name = mount.controllers.iter().find(|name| key::homes(key).contains(&name.as_str()));
    let name = name.map_or("cgroup", String::as_str);
    let (directory, version) = tree.directory(group, name)?;
    // Read errors are ignored here. If the file itself cannot be read, the error is reported below.
    let present = |file: &str| fs::read_to_string(directory.join(file)).ok();
    match key::show(key, version, &present)? {
        Some(value) => Ok(value.trim_end().to_owned()),
        None => {
            let file = directory.join(key);
            match fs::read_to_string(&file) {
                Err(error) if file.exists() => Err(Error::of("read", &file)(error)),
                _ => Err(missing(tree, group, mount, key, key)),
            }
        }
    }
}

/// Rejects CPUs and memory nodes that don't exist.
///
/// # Errors
/// The missing CPUs or nodes.
pub fn check_placement(write: &Write, topology: &Topology) -> Result<(), String> {
    let (what, all) = match write.name() {
        "cpuset.cpus" => ("CPU", topology.online()),
        "cpuset.mems" => ("memory node", topology.memory_nodes()),
        _ => return Ok(()),
    };
    let list = List::parse(&write.value)
        .ok_or_else(|| format!("{:?} is not a list such as 0-3,7", write.value))?;
    let absent = list.without(&all);
    if absent.is_empty() {
        return Ok(());
    }
    let (plural, verb) = if absent.len() > 1 { ("s", "do") } else { ("", "does") };
    Err(format!("{what}{plural} {absent} {verb} not exist: this host has {all}"))
}

/// Rejects a memory limit below the present usage: on cgroup v2 the kernel would kill processes, and on v1 the write
/// would fail.
///
/// # Errors
/// The limit is below the usage, which the message contains.
pub fn check_usage(write: &Write) -> Result<(), String> {
    let usage = match write.name() {
        "memory.max" => "memory.current",
        "memory.limit_in_bytes" => "memory.usage_in_bytes",
        "memory.memsw.limit_in_bytes" => "memory.memsw.usage_in_bytes",
        _ => return Ok(()),
    };
    let Some(limit) = key::bytes(&write.value)? else { return Ok(()) };
    let used = fs::read_to_string(write.file.with_file_name(usage)).unwrap_or_default();
    match used.trim().parse::<u64>() {
        Ok(used) if limit < used => Err(format!(
            "the limit of {limit} bytes is below the present usage of the group, {used} bytes"
        )),
        _ => Ok(()),
    }
}

/// Returns the initial content of a file, for a group that does not exist yet. The function knows only the files from
/// whose content other values are computed, and returns `None` for all other files.
fn fresh(file: &str) -> Option<String> {
    let value = match file {
        "cpu.max" => "max 100000",
        "memory.max" => "max",
        "memory.limit_in_bytes" => "-1",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Redirects a write to BFQ's weight file if the group has no other weight file. BFQ's file has v1's range of weights
/// on v2 as well.
fn with_bfq(directory: &Path, assign: Assign) -> Assign {
    let bfq = match assign.file.as_str() {
        "blkio.weight" => "blkio.bfq.weight",
        "io.weight" => "io.bfq.weight",
        _ => return assign,
    };
    if directory.join(&assign.file).exists() || !directory.join(bfq).exists() {
        return assign;
    }
    let number = assign.value.parse().ok().filter(|_| assign.file == "io.weight");
    let value = number.map_or(assign.value, |weight| blkio_weight(weight).to_string());
    Assign { file: bfq.to_owned(), value }
}

/// Returns an error that explains why a file does not exist.
fn missing(tree: &Tree, group: &Group, mount: &Mount, key: &str, file: &str) -> Error {
    if !key::is_known(key) {
        return unknown(tree, group, key);
    }
    let directory = mount.path.join(&group.path);
    let object = directory.join(file);
    let handed = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    let name = key::homes(key).into_iter().find(|name| mount.controllers.iter().any(|c| c == name));
    if let (Version::V2, Some(name)) = (mount.version, name)
        && !handed.split_whitespace().any(|have| have == name)
    {
        let reason = format!("the controller {name} is not delegated to the group {group}");
        let advice = format!("\"dayfly cgroup create {}\" delegates it", group.path);
        return Error::refused(reason).advise(advice);
    }
    let error = rustix::io::Errno::NOENT;
    Error::system("open", object.display(), error).advise("this kernel does not have it")
}

fn unknown(tree: &Tree, group: &Group, key: &str) -> Error {
    let mut files = Vec::new();
    for directory in tree.directories(group) {
        files.extend(entries(&directory, fs::FileType::is_file));
    }
    let error = refused!("no controller has a file {key:?}");
    let lists = "\"dayfly cgroup get -a GROUP\" lists the files".to_owned();
    suggest(error, key, key::names().chain(files.iter().map(String::as_str)), lists)
}
