//! `pin`: pins groups to CPUs and memory nodes by the host's topology.

use super::group::{Group, Tree};
use super::journal::{Journal, Write};
use super::setting::{self, Pending};
use crate::cgroups::options;
use report::{Error, say};
use std::path::Path;
use topology::pin::{Pin, Placed, place};
use topology::{List, Topology};

/// Pins groups, or only prints the settings.
///
/// # Errors
/// Unknown CPUs and groups; changes that the kernel refuses.
pub fn pin(options: &options::Pin) -> Result<(), Error> {
    let root = options.sysroot.as_deref().unwrap_or(Path::new(""));
    let topology = Topology::read(&root.to_string_lossy())?;
    let tree = if options.sysroot.is_none() { Some(Tree::detect()?) } else { None };
    let all = if options.auto {
        automatic(&options.words, &topology, tree.as_ref())?
    } else {
        let (group, words) = options.parts()?;
        let allowed = allowed(tree.as_ref(), &group, &topology);
        let placement = Pin::parse(words).and_then(|pin| pin.resolve(&topology, &allowed));
        vec![Placed { name: group.path, placement: placement? }]
    };
    if let Some(tree) = &tree {
        check(tree, &all, options.dry_run)?;
    }
    say!("{}", lines(&all));
    match tree {
        Some(tree) if !options.dry_run => write(&tree, &all, options.move_memory),
        _ => Ok(()),
    }
}

/// Formats the settings as cgset lines.
pub fn lines(all: &[Placed]) -> String {
    let lines = |Placed { name, placement }: &Placed| {
        let (cpus, mems) = (&placement.cpus, &placement.mems);
        format!("cgset -r cpuset.cpus='{cpus}' {name}\ncgset -r cpuset.mems='{mems}' {name}\n")
    };
    all.iter().map(lines).collect()
}

/// Rejects the root, a group that is named twice, and, unless this is a dry run, a group that doesn't exist.
fn check(tree: &Tree, all: &[Placed], is_question: bool) -> Result<(), Error> {
    for (at, Placed { name, .. }) in all.iter().enumerate() {
        if name.is_empty() {
            bail!("the root of a hierarchy has all CPUs and can't be pinned");
        }
        if all[..at].iter().any(|other| other.name == *name) {
            bail!("the group {name} is named twice");
        }
        if !is_question {
            tree.directory(&Group::at(name)?, "cpuset")?;
        }
    }
    Ok(())
}

/// Parses arguments `GROUP=CPUS`, and chooses CPUs and nodes for these groups.
fn automatic(
    words: &[String],
    topology: &Topology,
    tree: Option<&Tree>,
) -> Result<Vec<Placed>, Error> {
    let mut sizes = Vec::new();
    let mut bounds = topology.online();
    for word in words {
        let wrong = || refused!("{word:?} is not GROUP=CPUS, such as db=8");
        let (group, size) = word.rsplit_once('=').ok_or_else(wrong)?;
        let group: Group = group.parse()?;
        let size: u32 = size.parse().ok().filter(|size| *size > 0).ok_or_else(wrong)?;
        bounds = bounds.intersection(&allowed(tree, &group, topology));
        sizes.push((group.path, size));
    }
    Ok(place(&sizes, topology, &bounds)?)
}

/// Returns the CPUs that the group's parent allows.
fn allowed(tree: Option<&Tree>, group: &Group, topology: &Topology) -> List {
    let above =
        tree.and_then(|tree| setting::read(tree, &group.parent(), "cpuset.cpus.effective").ok());
    above.and_then(|text| List::parse(&text)).unwrap_or_else(|| topology.online())
}

/// Writes all settings, or none. Memory nodes are written first, so that no new memory is allocated on the previous
/// nodes.
fn write(tree: &Tree, all: &[Placed], move_memory: bool) -> Result<(), Error> {
    let mut writes: Vec<Write> = Vec::new();
    let mut journal = Journal::begin()?;
    for Placed { name, placement } in all {
        let group = Group::at(name)?;
        let values = [("cpuset.mems", &placement.mems), ("cpuset.cpus", &placement.cpus)];
        for (key, list) in values {
            let value = list.to_string();
            writes.extend(setting::resolve(tree, &group, (key, &value), &Pending::new())?);
        }
        if move_memory {
            super::memory::migrate(tree, &group, &mut journal)?;
        }
    }
    journal.finish(writes)
}
