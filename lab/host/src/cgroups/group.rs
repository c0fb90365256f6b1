//! Groups by name, and their directories in the hierarchies.

use super::error::{of_cgroup, suggest};
use cgroup::{Cgroup, Hierarchies, Location};
use report::Error;
use spec::resources::Resources;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A group as users name it: `PATH`, or `CONTROLLER[,CONTROLLER…]:PATH` for some hierarchies only. Paths start at the
/// root of the hierarchies; `/` is the root itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// The controllers to which the group is limited; empty for all.
    pub controllers: Vec<String>,
    /// The path without leading and trailing slashes; empty for the root.
    pub path: String,
}

impl Group {
    /// Returns the group at `path` in all hierarchies.
    ///
    /// # Errors
    /// A path with `..` or control characters.
    pub fn at(path: &str) -> Result<Self, String> {
        let parts: Vec<&str> =
            path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(format!("{path:?}: \"..\" is not allowed in the name of a group"));
        }
        if path.contains(|c: char| c.is_control()) {
            return Err(format!("{path:?}: control characters are not allowed"));
        }
        Ok(Self { controllers: Vec::new(), path: parts.join("/") })
    }

    /// Returns the parent group; the root's parent is the root.
    pub fn parent(&self) -> Self {
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        Self { controllers: self.controllers.clone(), path }
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((list, path)) = text.split_once(':').filter(|(list, _)| !list.contains('/'))
        else {
            return Self::at(text);
        };
        let all = list == "*" || list.is_empty();
        let names = list.split(',').filter(|name| !name.is_empty() && !all).map(str::to_owned);
        Ok(Self { controllers: names.collect(), ..Self::at(path)? })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.controllers.is_empty() {
            write!(f, "{}:", self.controllers.join(","))?;
        }
        f.write_str(if self.path.is_empty() { "/" } else { &self.path })
    }
}

/// The cgroup interface of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// cgroup v1.
    V1,
    /// cgroup v2.
    V2,
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The interface of the hierarchy.
    pub version: Version,
    /// The controllers of the hierarchy, as the kernel names them.
    pub controllers: Vec<String>,
    /// The mount point of the hierarchy.
    pub path: PathBuf,
}

/// The hierarchies of this host.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The hierarchies in the runtime's representation.
    pub hierarchies: Hierarchies,
    /// All mounted hierarchies, those of v1 first.
    pub mounts: Vec<Mount>,
}

impl Tree {
    /// Finds the hierarchies mounted under /sys/fs/cgroup.
    ///
    /// # Errors
    /// No cgroup file system; failing system calls.
    pub fn detect() -> Result<Self, Error> {
        let hierarchies = Hierarchies::detect().map_err(of_cgroup)?;
        let legacy = hierarchies.legacy.iter().map(|hierarchy| {
            let names = hierarchy.controllers.iter().map(|controller| controller.name().to_owned());
            let (controllers, path) = (names.collect(), PathBuf::from(&hierarchy.mount));
            Mount { version: Version::V1, controllers, path }
        });
        let mut mounts: Vec<Mount> = legacy.collect();
        if let Some(unified) = &hierarchies.unified {
            let path = PathBuf::from(unified);
            let file = path.join("cgroup.controllers");
            let list = fs::read_to_string(&file).map_err(Error::of("read", &file))?;
            let controllers = list.split_whitespace().map(str::to_owned).collect();
            mounts.push(Mount { version: Version::V2, controllers, path });
        }
        Ok(Self { hierarchies, mounts })
    }

    /// Returns the hierarchy of a controller. Features of cgroup v2 that need no controller (`cgroup.*`, freezing, CPU
    /// accounting) belong to v2 unless v1 has a hierarchy for them.
    pub fn home(&self, controller: &str) -> Option<&Mount> {
        let has = |mount: &&Mount| mount.controllers.iter().any(|name| name == controller);
        let core = matches!(controller, "cgroup" | "freezer" | "cpuacct");
        let unified = |mount: &&Mount| core && mount.version == Version::V2;
        self.mounts.iter().find(has).or_else(|| self.mounts.iter().find(unified))
    }

    /// Returns whether `mount` is one of the hierarchies of `group`.
    pub fn covers(&self, group: &Group, mount: &Mount) -> bool {
        let is_home = |name: &String| self.home(name).is_some_and(|home| home.path == mount.path);
        group.controllers.is_empty() || group.controllers.iter().any(is_home)
    }

    /// Rejects controllers that no hierarchy has.
    ///
    /// # Errors
    /// A missing controller; the error lists the available ones.
    pub fn check(&self, group: &Group) -> Result<(), Error> {
        let absent = group.controllers.iter().find(|name| self.home(name).is_none());
        absent.map_or(Ok(()), |name| Err(self.no_controller(name)))
    }

    /// Returns the error that no hierarchy has `controller`.
    pub fn no_controller(&self, controller: &str) -> Error {
        let all: Vec<&str> =
            self.mounts.iter().flat_map(|m| &m.controllers).map(|s| &**s).collect();
        let error = refused!("no mounted hierarchy has the controller {controller:?}");
        suggest(error, controller, &all, format!("this host has {}", all.join(", ")))
    }

    /// Iterates over the hierarchies of `group`, each with the directory of `group`, existing or not.
    pub fn places(&self, group: &Group) -> impl Iterator<Item = (&Mount, PathBuf)> {
        let covered = self.mounts.iter().filter(|mount| self.covers(group, mount));
        covered.map(|mount| (mount, mount.path.join(&group.path)))
    }

    /// Returns the directories of `group`, existing or not: one per hierarchy.
    pub fn directories(&self, group: &Group) -> Vec<PathBuf> {
        self.places(group).map(|(_, directory)| directory).collect()
    }

    /// Returns the existing directories of `group`.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn existing(&self, group: &Group) -> Result<Vec<PathBuf>, Error> {
        self.check(group)?;
        let mut there = self.directories(group);
        there.retain(|directory| directory.is_dir());
        if there.is_empty() { Err(no_group(group)) } else { Ok(there) }
    }

    /// Returns whether the group exists in any hierarchy.
    pub fn exists(&self, group: &Group) -> bool {
        self.directories(group).iter().any(|directory| directory.is_dir())
    }

    /// Returns the directory of `group` in the hierarchy of `controller`, and the interface of that hierarchy.
    ///
    /// # Errors
    /// No such controller, or no such group.
    pub fn directory(&self, group: &Group, controller: &str) -> Result<(PathBuf, Version), Error> {
        let home = self.home(controller).ok_or_else(|| self.no_controller(controller))?;
        let directory = home.path.join(&group.path);
        if directory.is_dir() {
            return Ok((directory, home.version));
        }
        if self.exists(&Group::at(&group.path)?) {
            let reason = format!("the group {:?} is not in the {controller} hierarchy", group.path);
            let advice =
                format!("\"dayfly cgroup create {controller}:{}\" creates it there", group.path);
            return Err(Error::refused(reason).advise(advice));
        }
        Err(no_group(group))
    }

    /// Returns the group's location in the runtime's representation; the root has none.
    ///
    /// # Errors
    /// The root; unknown controllers.
    pub fn location(&self, group: &Group) -> Result<Location, Error> {
        self.check(group)?;
        if group.path.is_empty() {
            bail!("the root of a hierarchy can't be made, frozen or removed");
        }
        let mut location =
            Location::resolve(&self.hierarchies, Some(&format!("/{}", group.path)), "")
                .map_err(of_cgroup)?;
        let directories = self.directories(group);
        let covers = |directory: &str| directories.iter().any(|it| it == Path::new(directory));
        location.legacy.retain(|legacy| covers(legacy.place.directory()));
        location.unified = location.unified.filter(|place| covers(place.directory()));
        Ok(location)
    }

    /// Opens the group in the hierarchies where it exists.
    ///
    /// # Errors
    /// The group does not exist.
    pub fn open(&self, group: &Group) -> Result<Cgroup, Error> {
        self.existing(group)?;
        Cgroup::open(&self.location(group)?).map_err(of_cgroup)
    }

    /// Creates the directories of `group` and of its missing parents. New directories get the CPUs and memory nodes of
    /// their parents, and on cgroup v2 every controller; existing directories stay as they are. Returns the created
    /// directories, from the top down.
    ///
    /// # Errors
    /// Unknown controllers; failing system calls. Created directories are removed again.
    pub fn make(&self, group: &Group) -> Result<Vec<PathBuf>, Error> {
        let location = self.location(group)?;
        let missing = self.missing(group);
        // On a hybrid host, v1 and v2 are handled separately: cgroup v2 has no controllers there.
        let legacy = Location { unified: None, ..location.clone() };
        let unified = Location { legacy: Vec::new(), ..location };
        let both = [legacy, unified];
        for location in both.iter().filter(|of| of.unified.is_some() || !of.legacy.is_empty()) {
            let legacy = location.legacy.iter().map(|legacy| &legacy.place);
            let mut places = legacy.chain(&location.unified);
            if places.all(|place| Path::new(place.directory()).is_dir()) {
                if location.is_unified() {
                    let cgroup = Cgroup::open(location).map_err(of_cgroup)?;
                    cgroup.hand_down_controllers().map_err(of_cgroup)?;
                }
                continue;
            }
            match Cgroup::create(location, &Resources::default(), None) {
                Ok(mut cgroup) => cgroup.keep(),
                Err(cgroup::Error::NotEmpty { .. } | cgroup::Error::Frozen { .. }) => {}
                Err(error) => {
                    for directory in missing.iter().rev() {
                        let _ = fs::remove_dir(directory);
                    }
                    return Err(of_cgroup(error));
                }
            }
        }
        Ok(missing.into_iter().filter(|directory| directory.is_dir()).collect())
    }

    /// Returns the directories that [`Tree::make`] would create, from the top down.
    pub fn missing(&self, group: &Group) -> Vec<PathBuf> {
        let mut missing = Vec::new();
        for (mount, directory) in self.places(group) {
            let below = directory.ancestors().take_while(|above| *above != mount.path);
            let absent = below.filter(|above| !above.is_dir()).map(Path::to_owned);
            let absent: Vec<PathBuf> = absent.collect();
            missing.extend(absent.into_iter().rev());
        }
        missing
    }

    /// Returns the direct children of `group` in all its hierarchies, sorted by name.
    pub fn children(&self, group: &Group) -> Vec<Group> {
        let mut names = BTreeSet::new();
        for directory in self.directories(group) {
            names.extend(entries(&directory, fs::FileType::is_dir));
        }
        let slash = if group.path.is_empty() { "" } else { "/" };
        let child = |name: String| Group {
            controllers: group.controllers.clone(),
            path: format!("{}{slash}{name}", group.path),
        };
        names.into_iter().map(child).collect()
    }

    /// Returns `group` and all its descendants, parents first.
    pub fn walk(&self, group: &Group) -> Vec<Group> {
        let mut all = Vec::new();
        let mut open = vec![group.clone()];
        while let Some(group) = open.pop() {
            open.extend(self.children(&group).into_iter().rev());
            all.push(group);
        }
        all
    }
}

/// Returns the names of the entries of a directory that are of this kind, sorted; none if there is no such directory.
pub fn entries(directory: &Path, is_kind: fn(&fs::FileType) -> bool) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of_kind = entries.filter(|entry| entry.file_type().is_ok_and(|kind| is_kind(&kind)));
    let mut names: Vec<String> =
        of_kind.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Returns the processes that are directly in these directories, each process once.
///
/// # Errors
/// Failing reads.
pub fn processes(directories: &[PathBuf]) -> Result<Vec<i32>, Error> {
    let mut pids = Vec::new();
    for directory in directories {
        let file = directory.join("cgroup.procs");
        let text = match fs::read_to_string(&file) {
            // The processes of a threaded group are listed at the root of the threaded tree, and a removed group has no
            // processes.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 19 | 95)) => continue,
            result => result.map_err(Error::of("read", &file))?,
        };
        pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn no_group(group: &Group) -> Error {
    refused!("there is no group {:?}", group.to_string())
        .advise("\"dayfly cgroup ls\" lists the groups")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups() {
        let group: Group = "cpu,memory:/a//b/".parse().unwrap();
        assert_eq!((group.controllers.len(), group.path.as_str()), (2, "a/b"));
        assert_eq!(group.to_string(), "cpu,memory:a/b");
        assert_eq!("/".parse::<Group>().unwrap().to_string(), "/");
        assert_eq!("*:a".parse::<Group>().unwrap().to_string(), "a");
        assert_eq!("a/b".parse::<Group>().unwrap().parent().path, "a");
        assert_eq!("/a/x:y".parse::<Group>().unwrap().path, "a/x:y");
        assert!("a/../b".parse::<Group>().is_err());
        assert!("a\nb".parse::<Group>().is_err());
    }
}
