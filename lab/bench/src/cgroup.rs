//! The parent cgroup of all containers of an experiment.

use crate::base::*;
use crate::view::View;
use cgroup::{Cgroup, Hierarchies, Location};

/// The parent cgroup; emptied and removed when dropped.
#[derive(Debug)]
pub struct Parent {
    /// The path of the cgroup from the root of each hierarchy, with a leading slash.
    pub path: String,
    hierarchies: Hierarchies,
}

impl Parent {
    /// Creates the cgroup `name` if this process's view is v2. In the other views, the runtimes create the cgroup as
    /// needed.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn make(name: &str) -> Result<Self, Error> {
        let parent = Self::named(name)?;
        if parent.hierarchies.is_unified() {
            for directory in parent.directories() {
                fs::create_dir(&directory).map_err(Error::at("make cgroup", &directory))?;
            }
        }
        Ok(parent)
    }

    /// Returns the parent cgroup `name`, which need not exist.
    ///
    /// # Errors
    /// No cgroup hierarchy is mounted.
    pub fn named(name: &str) -> Result<Self, Error> {
        let hierarchies = Hierarchies::detect().map_err(|error| unfit!("{error}"))?;
        Ok(Self { path: format!("/{name}"), hierarchies })
    }

    /// Returns the directories of the cgroup, which may not exist yet: runtimes create them on v1.
    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        mounts(&self.hierarchies).map(|mount| PathBuf::from(format!("{mount}{}", self.path)))
    }

    /// Returns the number of hierarchies that have the cgroup.
    pub fn count(&self) -> usize {
        self.directories().filter(|directory| directory.exists()).count()
    }

    /// Kills the processes of the child cgroup `name` and removes the cgroup in all hierarchies. A failure is printed as
    /// a warning.
    pub fn clear(&self, name: &str) {
        tell(self.delete(&format!("{}/{name}", self.path)));
    }

    /// Does the same with the parent and all cgroups below it.
    pub fn clear_all(&self) {
        tell(self.remove());
    }

    /// Kills all processes in the parent and all cgroups below it, and removes these cgroups.
    ///
    /// # Errors
    /// Processes that do not end; those of rmdir(2).
    pub fn remove(&self) -> Result<(), Error> {
        self.delete(&self.path)
    }

    fn delete(&self, path: &str) -> Result<(), Error> {
        let location = Location::resolve(&self.hierarchies, Some(path), "");
        let deleted = location.and_then(|location| Cgroup::delete_directories(&location));
        deleted.map_err(|error| unfit!("{error}"))
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.clear_all();
    }
}

fn tell(result: Result<(), Error>) {
    if let Err(error) = result {
        eprintln!("warning: {error}");
    }
}

/// Returns the mount points of hierarchies.
fn mounts(hierarchies: &Hierarchies) -> impl Iterator<Item = &String> {
    hierarchies.legacy.iter().map(|hierarchy| &hierarchy.mount).chain(&hierarchies.unified)
}

/// Returns the mount points of this process's cgroup hierarchies.
pub fn tops() -> Vec<PathBuf> {
    let hierarchies = Hierarchies::detect();
    hierarchies.iter().flat_map(mounts).map(PathBuf::from).collect()
}

/// Enters a view with these controllers, if the present one lacks any: the host's own, or v1 if the host's own is
/// hybrid, in which crun refuses to run. If there is none, the view is the host's own.
///
/// # Errors
/// Those of [`View::leave`] and [`View::enter`].
pub fn enter_view_with(controllers: &[&str]) -> Result<(), Error> {
    let has_all = || controllers.iter().all(|name| can_limit(name));
    if has_all() {
        return Ok(());
    }
    View::leave()?;
    if View::current() == View::Hybrid && has_all() { View::V1.enter() } else { Ok(()) }
}

/// Returns those of the controllers of common limits that containers can use in this process's view.
pub fn controllers() -> String {
    let all = ["cpu", "cpuset", "memory", "pids"].into_iter();
    all.filter(|name| can_limit(name)).collect::<Vec<_>>().join(" ")
}

/// Returns whether this process's view has a cgroup controller that containers can use.
pub fn can_limit(controller: &str) -> bool {
    let top = Path::new("/sys/fs/cgroup");
    if View::current() == View::V2 {
        let all = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
        return all.split_whitespace().any(|name| name == controller);
    }
    // A controller that is mounted together with others has a symbolic link with its own name.
    top.join(controller).join("cgroup.procs").exists()
}
