//! `swap`: exchanges the CPUs of two groups while they run.
//!
//! Each group first gets the CPUs of both, and then gives up the CPUs that it had before. Thus no task is ever without
//! a CPU, and no group exceeds its parent. A failure undoes everything.

use super::group::{Group, Tree, Version, entries};
use super::journal::Journal;
use crate::cgroups::options::Swap;
use report::{Error, sayln};
use std::fs;
use std::path::{Path, PathBuf};
use topology::List;

/// Exchanges the CPUs.
///
/// # Errors
/// A group that does not exist; a group that contains the other group; an exchange that a parent, exclusive CPUs or
/// children forbid; changes that the kernel refuses.
pub fn swap(options: &Swap) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let (one, other) = (Side::of(&tree, &options.one)?, Side::of(&tree, &options.other)?);
    if one.directory == other.directory {
        bail!("{} is one group: give two", one.name);
    }
    for (inner, outer) in [(&one, &other), (&other, &one)] {
        if inner.directory.starts_with(&outer.directory) {
            bail!("the group {} is inside of {}", inner.name, outer.name);
        }
    }
    let mut steps = Vec::new();
    let files =
        if options.move_memory { &["cpuset.cpus", "cpuset.mems"][..] } else { &["cpuset.cpus"] };
    for file in files {
        let lists = (one.list(file)?, other.list(file)?);
        one.check(file, &lists.1)?;
        other.check(file, &lists.0)?;
        steps.extend(order(file, &one.directory, &other.directory, lists));
    }
    if options.move_memory {
        sayln!("{}", super::memory::told(one.version));
    }
    for (file, value) in &steps {
        sayln!("{} = {value}", file.display());
    }
    if options.dry_run {
        return Ok(());
    }
    let mut journal = Journal::begin()?;
    let mut exclusive = vec![&one, &other];
    exclusive.retain(|side| {
        let text = fs::read_to_string(side.directory.join("cpuset.cpu_exclusive"));
        text.is_ok_and(|text| text.trim() == "1")
    });
    for side in &exclusive {
        // The groups share their CPUs for a moment, which is not possible while the CPUs are exclusive.
        journal.write(&side.directory.join("cpuset.cpu_exclusive"), "0")?;
    }
    if options.move_memory {
        super::memory::migrate(&tree, &options.one, &mut journal)?;
        super::memory::migrate(&tree, &options.other, &mut journal)?;
    }
    for (file, value) in &steps {
        journal.write(file, value).map_err(|error| refused(error, file))?;
    }
    for side in &exclusive {
        journal.write(&side.directory.join("cpuset.cpu_exclusive"), "1")?;
    }
    journal.commit();
    Ok(())
}

/// One of the two groups whose CPUs are exchanged.
struct Side {
    name: String,
    directory: PathBuf,
    version: Version,
}

impl Side {
    fn of(tree: &Tree, group: &Group) -> Result<Self, Error> {
        if group.path.is_empty() {
            bail!("the root has all CPUs and can't exchange them");
        }
        let (directory, version) = tree.directory(group, "cpuset")?;
        Ok(Self { name: group.path.clone(), directory, version })
    }

    /// Returns the group's own CPUs or nodes, or the inherited ones if it has none of its own.
    fn list(&self, file: &str) -> Result<List, Error> {
        for file in [file.to_owned(), effective(file, self.version)] {
            let list = read(&self.directory.join(file))?;
            if !list.is_empty() {
                return Ok(list);
            }
        }
        Err(refused!("the group {} has no {file} yet", self.name).advise("set them first"))
    }

    /// Checks that the group may get `wanted`: the parent must allow these CPUs or nodes, and on v1 the CPUs or nodes
    /// of the children must be a subset of `wanted`.
    fn check(&self, file: &str, wanted: &List) -> Result<(), Error> {
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        let above = read(&parent.join(effective(file, self.version)))
            .or_else(|_| read(&parent.join(file)))?;
        if !wanted.is_within(&above) {
            bail!("the group {} can't have {wanted}: its parent has {above}", self.name);
        }
        if self.version == Version::V2 {
            // On v2, children keep those of their CPUs that remain; if none remains, they use all CPUs of the group.
            let partition = fs::read_to_string(self.directory.join("cpuset.cpus.partition"));
            if partition.is_ok_and(|kind| kind.trim() != "member") {
                let reason = format!("the group {} is a partition with exclusive CPUs", self.name);
                let advice = "set cpuset.cpus.partition to member first";
                return Err(Error::refused(reason).advise(advice));
            }
            return Ok(());
        }
        for name in entries(&self.directory, fs::FileType::is_dir) {
            let list = read(&self.directory.join(&name).join(file)).unwrap_or_default();
            if !list.is_within(wanted) {
                return Err(refused!(
                    "the group {}/{name} has {file} {list}, which {} would not have any more",
                    self.name,
                    self.name
                )
                .advise("on cgroup v1 exchange or widen that first"));
            }
        }
        Ok(())
    }
}

/// Returns the writes in order: both groups grow, then both shrink.
fn order(file: &str, one: &Path, other: &Path, lists: (List, List)) -> Vec<(PathBuf, String)> {
    let both = lists.0.union(&lists.1).to_string();
    let (one, other) = (one.join(file), other.join(file));
    vec![
        (one.clone(), both.clone()),
        (other.clone(), both),
        (one, lists.1.to_string()),
        (other, lists.0.to_string()),
    ]
}

fn effective(file: &str, version: Version) -> String {
    match (version, file) {
        (Version::V2, file) => format!("{file}.effective"),
        (Version::V1, "cpuset.cpus") => "cpuset.effective_cpus".to_owned(),
        (Version::V1, _) => "cpuset.effective_mems".to_owned(),
    }
}

fn read(path: &Path) -> Result<List, Error> {
    let text = fs::read_to_string(path).map_err(Error::of("read", path))?;
    List::parse(&text).ok_or_else(|| refused!("{}: {text:?}", path.display()))
}

fn refused(error: Error, file: &Path) -> Error {
    let name = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    error.advise(format!("the exchange is undone; check the siblings of {name}"))
}
