//! `apply` and `diff`: compute the changes that a cgroup plan needs, and make them.

use super::cgroup_plan::{self, CgroupPlan, GroupPlan, Parent, Setting};
use super::group::{Group, Mount, Tree, Version};
use super::journal::{Belonging, Change, Journal, Write};
use super::setting::{self, Pending};
use super::{create, devices, key};
use crate::account::{self, Owner};
use crate::cgroups::options::{Apply, PlanFile};
use cgroup::Hierarchies;
use report::{Error, say};
use spec::word;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use topology::Topology;
use topology::pin::Pin;

/// Applies a cgroup plan: all of it, or nothing.
///
/// # Errors
/// An invalid cgroup plan, before anything is changed; another host's cgroup plan, unless this is a dry run; a change
/// that the kernel refuses, after all other changes were undone.
pub fn apply(options: &Apply) -> Result<(), Error> {
    let changes = Changes::of(&options.plan, options.below_usage)?;
    if !options.quiet || options.dry_run {
        say!("{changes}");
    }
    if options.dry_run {
        return Ok(());
    }
    if options.plan.sysroot.is_some() {
        bail!("--sysroot shows the changes for another host: add --dry-run");
    }
    changes.make()
}

/// Shows the changes that [`apply`] would make; returns exit code 1 if there are changes.
///
/// # Errors
/// An invalid cgroup plan.
pub fn diff(options: &PlanFile) -> Result<ExitCode, Error> {
    let changes = Changes::of(options, true)?;
    say!("{changes}");
    Ok(ExitCode::from(u8::from(!changes.is_empty())))
}

/// The changes that a cgroup plan needs on this host.
#[derive(Debug)]
pub struct Changes {
    tree: Tree,
    notes: Vec<String>,
    groups: Vec<GroupChanges>,
}

#[derive(Debug)]
struct GroupChanges {
    plan: GroupPlan,
    /// Directories to create.
    missing: Vec<PathBuf>,
    /// Changes of owners and permissions of existing directories.
    belongings: Vec<Change>,
    /// Values to write, each with the present value.
    writes: Vec<(Write, Option<String>)>,
}

impl Changes {
    /// Compares the cgroup plan with the present state.
    ///
    /// # Errors
    /// An invalid cgroup plan, with file and line.
    pub fn of(options: &PlanFile, below_usage: bool) -> Result<Self, Error> {
        let plan = cgroup_plan::load(&options.file)?;
        let root = options.sysroot.as_deref().unwrap_or(Path::new(""));
        let topology = Topology::read(&root.to_string_lossy())?;
        let (tree, notes) = match &options.sysroot {
            Some(root) => (elsewhere(&plan, root), Vec::new()),
            None => {
                let tree = Tree::detect()?;
                let notes = mounted(&plan, &tree);
                (tree, notes)
            }
        };
        let mut groups = plan.groups.clone();
        if let Some(owner) = &options.user {
            let process = options.process.as_deref().unwrap_or_default();
            groups.extend(plan.instantiate(owner, process, options.pid.unwrap_or(0))?);
        }
        let mut changes = Self { tree, notes, groups: Vec::new() };
        let mut pending = Pending::new();
        let mut planned = HashSet::new();
        for group in groups {
            let is_here = options.sysroot.is_none();
            let mut found = changes.look(group, &topology, &mut pending, (is_here, below_usage))?;
            // Earlier groups of the cgroup plan create some of these directories.
            found.missing.retain(|directory| planned.insert(directory.clone()));
            changes.groups.push(found);
        }
        Ok(changes)
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(GroupChanges::is_empty)
    }

    fn look(
        &self,
        plan: GroupPlan,
        topology: &Topology,
        pending: &mut Pending,
        (is_here, below_usage): (bool, bool),
    ) -> Result<GroupChanges, Error> {
        let absent = |name: &&String| self.tree.home(name).is_none();
        if let Some(name) = plan.group.controllers.iter().find(absent) {
            return Err(self.tree.no_controller(name).sourced(plan.place(name)));
        }
        if is_here {
            self.check_parent(&plan)?;
            for (whose, owner) in [("task", &plan.ownership.task), ("admin", &plan.ownership.admin)]
            {
                let ids = owner.as_ref().map(Owner::ids).transpose();
                ids.map_err(|error| error.sourced(plan.place(whose)))?;
            }
        }
        let mut belongings = Vec::new();
        let directories = self.tree.directories(&plan.group);
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            let changes = create::changes(directory, &plan.ownership);
            belongings.extend(changes.map_err(|error| error.sourced(&plan.source))?);
        }
        let mut writes = Vec::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        for setting in settings(&plan, topology)? {
            let pair = (setting.key.as_str(), setting.value.as_str());
            let resolved = setting::resolve(&self.tree, &plan.group, pair, pending)
                .map_err(|error| error.sourced(&setting.source))?;
            for write in resolved {
                let write = Write { source: setting.source.to_string(), ..write };
                if !directories.iter().any(|directory| write.file.starts_with(directory)) {
                    let name = key::controller(&setting.key);
                    let error = setting.wrong("the group is not in that hierarchy");
                    return Err(error.advise(format!("add {name:?} to its controllers")));
                }
                setting::check_placement(&write, topology)
                    .map_err(|reason| setting.wrong(&reason))?;
                // Later values that depend on this file are computed from the new value, even if it equals the present
                // one.
                pending.insert(write.file.clone(), write.value.clone());
                wanted.push((setting.clone(), write));
            }
        }
        check_twice(&wanted)?;
        let devices = devices::as_wanted(wanted.iter().map(|(_, write)| write));
        for (setting, write) in wanted {
            let present = fs::read_to_string(&write.file).ok();
            let is_same = |now: &str| key::is_same(write.name(), &write.value, now);
            if present.as_deref().is_some_and(is_same) || devices.contains(&write.file) {
                continue;
            }
            if !below_usage {
                setting::check_usage(&write).map_err(|reason| {
                    let advice = "--below-usage sets it nevertheless, if the kernel permits";
                    setting.wrong(&reason).advise(advice)
                })?;
            }
            writes.push((write, present.map(|text| text.trim_end().to_owned())));
        }
        let missing = self.tree.missing(&plan.group);
        Ok(GroupChanges { plan, missing, belongings, writes })
    }

    /// Rejects a parent that is neither in the cgroup plan nor on this host: its name may be misspelt.
    fn check_parent(&self, plan: &GroupPlan) -> Result<(), Error> {
        let Some(Parent { group, source, similar }) = &plan.parent else { return Ok(()) };
        let group = Group { controllers: plan.group.controllers.clone(), ..group.clone() };
        if self.tree.exists(&group) {
            return Ok(());
        }
        let path = &group.path;
        let error = source.error(format!(
            "the parent {path:?} is neither a group of the cgroup plan nor one of this host"
        ));
        let beside = self.tree.children(&group.parent()).into_iter().map(|child| child.path);
        let similar = similar.clone().or_else(|| word::nearest(path.as_str(), beside));
        Err(match similar {
            Some(name) => {
                error.advise(format!("did you mean {name}? If not, make_parent = true makes it"))
            }
            None => error.advise("make_parent = true makes it"),
        })
    }

    /// Makes all changes, or none.
    ///
    /// # Errors
    /// A change that the kernel refuses.
    pub fn make(self) -> Result<(), Error> {
        let mut journal = Journal::begin()?;
        let mut writes = Vec::new();
        for changes in self.groups {
            let GroupChanges { plan, mut belongings, .. } = changes;
            let at = |error: Error| error.sourced(&plan.source);
            let made = journal.make(&self.tree, &plan.group).map_err(at)?;
            let own = self.tree.directories(&plan.group);
            for directory in made.iter().filter(|made| own.contains(made)) {
                belongings.extend(create::changes(directory, &plan.ownership).map_err(at)?);
            }
            for change in belongings {
                journal.change(&change).map_err(at)?;
            }
            writes.extend(changes.writes.into_iter().map(|(write, _)| write));
        }
        journal.finish(writes)
    }
}

impl GroupChanges {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.belongings.is_empty() && self.writes.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        for changes in self.groups.iter().filter(|changes| !changes.is_empty()) {
            writeln!(f, "{}", changes.plan.group.path)?;
            for directory in &changes.missing {
                writeln!(f, "  + {}", directory.display())?;
            }
            let ownership = &changes.plan.ownership;
            for (what, owner) in [("tasks", &ownership.task), ("admin", &ownership.admin)] {
                if let (Some(owner), false) = (owner, changes.missing.is_empty()) {
                    writeln!(f, "  + {what} {owner}")?;
                }
            }
            for change in &changes.belongings {
                let path = change.path.display();
                match change.to {
                    Belonging::Owner(user, group) => {
                        let user = user.map(|id| account::name(id, "/etc/passwd"));
                        let group = group.map(|id| account::name(id, "/etc/group"));
                        writeln!(f, "  ~ {path} belongs to {}", Owner { user, group })?;
                    }
                    Belonging::Mode(mode) => writeln!(f, "  ~ {path} has mode {mode:04o}")?,
                }
            }
            for (write, present) in &changes.writes {
                let name = write.name();
                for line in present.iter().flat_map(|present| present.lines()) {
                    writeln!(f, "  - {name} = {line}")?;
                }
                writeln!(f, "  + {name} = {}", write.value)?;
            }
        }
        Ok(())
    }
}

/// A setting of a cgroup plan, and a write that it needs.
type Wanted = (Setting, Write);

/// Rejects two values for the same file, or for the same line of a file, because only one of them could take effect.
fn check_twice(wanted: &[Wanted]) -> Result<(), Error> {
    let mut before: HashMap<_, &Wanted> = HashMap::new();
    for one in wanted {
        let (setting, write) = one;
        let Some(what) = write.what() else { continue };
        let Some((was, _)) = before.insert(what, one).filter(|other| is_other(one, other)) else {
            continue;
        };
        let place = match was.source.file == setting.source.file {
            true => format!("line {}", was.source.line),
            false => was.source.to_string(),
        };
        let reason = format!("{place} has set that already, by {}", was.key);
        return Err(setting.wrong(&reason).advise("leave one of them out"));
    }
    Ok(())
}

/// Returns whether two settings of the same file or line have different values. A quota and a period do not count as
/// different: each is one half of cpu.max.
fn is_other(one: &Wanted, other: &Wanted) -> bool {
    let halves = ["cpu.cfs_quota_us", "cpu.cfs_period_us"];
    let keys = [one, other].map(|(setting, _)| setting.key.as_str());
    let are_halves = keys[0] != keys[1] && keys.iter().all(|key| halves.contains(key));
    !are_halves && one.1.value != other.1.value
}

/// Returns the settings of a group. A pin adds CPUs and nodes unless the group itself sets them. Settings that are
/// computed from others come last.
fn settings(plan: &GroupPlan, topology: &Topology) -> Result<Vec<Setting>, Error> {
    let mut settings = Vec::new();
    let is_said = |key: &str| plan.settings.iter().any(|setting| setting.key == key);
    if let Some(pin) = &plan.pin {
        let wrong = |error: topology::pin::PinError| pin.source.error(error.to_string());
        let words = Pin::parse(&pin.value).map_err(wrong)?;
        let placement = words.resolve(topology, &topology.online()).map_err(wrong)?;
        for (key, list) in [("cpuset.mems", placement.mems), ("cpuset.cpus", placement.cpus)] {
            let (key, value, source) = (key.to_owned(), list.to_string(), pin.source.clone());
            if !is_said(&key) {
                settings.push(Setting { key, value, source });
            }
        }
    }
    settings.extend(plan.settings.iter().cloned());
    // v1's limit of memory and swap together is computed from the memory limit, and so is v2's swap limit.
    let is_swap = |key: &str| matches!(key, "memory.swap.max" | "memory.memsw.limit_in_bytes");
    settings.sort_by_key(|setting| is_swap(&setting.key));
    Ok(settings)
}

/// Compares the `mount` sections with the mounted hierarchies, and returns a note for each difference. dayfly mounts
/// nothing. A missing controller matters only if a group uses it, which is an error of that group.
fn mounted(plan: &CgroupPlan, tree: &Tree) -> Vec<String> {
    let note = |Setting { key: name, value: path, source }: &_| {
        let home = tree.home(name).map(|home| home.path.display().to_string());
        match home {
            Some(home) if home == *path => None,
            Some(home) => {
                Some(format!("{source}: {name} is mounted on {home} rather than on {path}"))
            }
            None => Some(format!("{source}: {name} is not mounted on this host")),
        }
    };
    plan.mounts.iter().filter_map(note).collect()
}

/// Returns the hierarchies that another host is assumed to have: those that the cgroup plan mounts, or cgroup v2
/// with all controllers.
fn elsewhere(plan: &CgroupPlan, root: &Path) -> Tree {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let hierarchies = Hierarchies { root: String::new(), unified: None, legacy: Vec::new() };
    let mount = |mounted: &Setting| Mount {
        version: Version::V1,
        controllers: vec![mounted.key.clone()],
        path: below(&mounted.value),
    };
    let mut mounts: Vec<Mount> = plan.mounts.iter().map(mount).collect();
    if mounts.is_empty() {
        let all = ["cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc"];
        let controllers = all.iter().map(|name| (*name).to_owned()).collect();
        mounts.push(Mount { version: Version::V2, controllers, path: below("/sys/fs/cgroup") });
    }
    Tree { hierarchies, mounts }
}
