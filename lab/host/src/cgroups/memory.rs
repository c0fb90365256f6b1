//! `move-memory`: moves a group's memory to other nodes.

use super::group::{Group, Tree, Version};
use super::journal::{Journal, Write};
use super::setting::{self, Pending};
use crate::cgroups::options::MoveMemory;
use report::{Error, sayln};
use std::collections::BTreeMap;
use std::fs;
use topology::Topology;

/// Returns a remark for the user: which part of a group's memory the kernel moves when the group's memory nodes change.
pub fn told(version: Version) -> &'static str {
    match version {
        Version::V1 => {
            "# cgroup v1: with cpuset.memory_migrate set, the kernel moves the memory that the group's tasks have mapped, \
             shared or not, before the change of nodes returns; unmapped page cache, and \
             pages locked at that moment, are not moved. Without it, no memory is moved"
        }
        Version::V2 => {
            "# cgroup v2: the kernel always moves the memory that the group's tasks have mapped, shared or not, before \
             the change of nodes returns; unmapped page cache, and pages locked at that moment, are not moved. \
             This cannot be disabled"
        }
    }
}

/// Sets the memory nodes of a group, and makes the kernel move the group's memory there.
///
/// # Errors
/// Unknown nodes; changes that the kernel refuses.
pub fn move_memory(options: &MoveMemory) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let topology = Topology::read("")?;
    let (_, version) = tree.directory(&options.group, "cpuset")?;
    if options.nodes.trim().is_empty() {
        return Err(refused!("no memory nodes are given").advise("give a list such as 0-1"));
    }
    let pair = ("cpuset.mems", options.nodes.as_str());
    let writes: Vec<Write> = setting::resolve(&tree, &options.group, pair, &Pending::new())?;
    for write in &writes {
        setting::check_placement(write, &topology)?;
    }
    sayln!("{}", told(version));
    let before = by_node(&tree, &options.group);
    let mut journal = Journal::begin()?;
    migrate(&tree, &options.group, &mut journal)?;
    journal.finish(writes)?;
    let after = by_node(&tree, &options.group);
    for (node, bytes) in &after {
        let was = before.get(node).copied().unwrap_or(0);
        sayln!(
            "node {node}: {} before, {} now",
            super::usage::size(was),
            super::usage::size(*bytes)
        );
    }
    Ok(())
}

/// Makes the kernel migrate memory when the nodes of `group` change. On cgroup v1, this requires
/// `cpuset.memory_migrate`.
///
/// # Errors
/// Failing system calls.
pub fn migrate(tree: &Tree, group: &Group, journal: &mut Journal) -> Result<(), Error> {
    let (directory, version) = tree.directory(group, "cpuset")?;
    match version {
        Version::V1 => journal.write(&directory.join("cpuset.memory_migrate"), "1"),
        Version::V2 => Ok(()),
    }
}

/// Returns the number of bytes of the group's memory on each node. memory.numa_stat contains numbers of pages on v1,
/// and a number of bytes for each kind of memory on v2.
fn by_node(tree: &Tree, group: &Group) -> BTreeMap<u32, u64> {
    let Ok((directory, version)) = tree.directory(group, "memory") else { return BTreeMap::new() };
    let text = fs::read_to_string(directory.join("memory.numa_stat")).unwrap_or_default();
    nodes_of(&text, version)
}

fn nodes_of(text: &str, version: Version) -> BTreeMap<u32, u64> {
    let mut nodes = BTreeMap::new();
    let (keys, unit): (&[&str], u64) = match version {
        Version::V1 => (&["total="], rustix::param::page_size() as u64),
        Version::V2 => (&["anon ", "file "], 1),
    };
    for line in text.lines().filter(|line| keys.iter().any(|key| line.starts_with(key))) {
        for word in line.split(' ') {
            let Some((node, count)) = word.strip_prefix('N').and_then(|word| word.split_once('='))
            else {
                continue;
            };
            if let (Ok(node), Ok(count)) = (node.parse(), count.parse::<u64>()) {
                *nodes.entry(node).or_default() += count * unit;
            }
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_on_nodes() {
        let v1 = nodes_of("total=3 N0=1 N1=2\nfile=9 N0=9 N1=0\n", Version::V1);
        let page = rustix::param::page_size() as u64;
        assert_eq!(v1, BTreeMap::from([(0, page), (1, 2 * page)]));
        let v2 =
            nodes_of("anon N0=4096 N1=0\nfile N0=1 N1=5\nkernel_stack N0=7 N1=7\n", Version::V2);
        assert_eq!(v2, BTreeMap::from([(0, 4097), (1, 5)]));
    }
}
