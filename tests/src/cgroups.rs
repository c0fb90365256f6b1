//! The paths of the suite's cgroups, in each view.

use crate::view::View;
use std::fs;
use std::path::{Path, PathBuf};

/// The parent of all of the suite's cgroups, from the hierarchy's root.
pub const PARENT: &str = "/dayfly-test";

/// Returns the `cgroupsPath` of a container.
#[must_use]
pub fn path_of(id: &str) -> String {
    format!("{PARENT}/{id}")
}

/// Returns the mount points of all hierarchies of this view.
#[must_use]
pub fn hierarchies(view: View) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    if view == View::V2 {
        return vec![top.to_owned()];
    }
    let Ok(entries) = fs::read_dir(top) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

/// Returns the directory of this process's cgroup in the hierarchy that is mounted at `hierarchy`.
#[must_use]
pub fn own(hierarchy: &Path) -> PathBuf {
    let table = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let name = hierarchy.file_name().unwrap_or_default().to_string_lossy();
    let is_unified = hierarchy.join("cgroup.controllers").exists();
    // Number, controllers, path: proc_pid_cgroup(5).
    let mut lines = table.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let own = lines.find(|(controllers, _)| match is_unified {
        true => controllers.is_empty(),
        false => controllers.split(',').any(|word| word.trim_start_matches("name=") == name),
    });
    hierarchy.join(own.map_or("", |(_, path)| path.trim_start_matches('/')))
}

/// Returns the directory of `path` under `controller` (`memory`, `pids`, …). In the v2 view all controllers share one
/// tree.
#[must_use]
pub fn dir(view: View, controller: &str, path: &str) -> PathBuf {
    let top = match view {
        View::V2 => PathBuf::from("/sys/fs/cgroup"),
        View::V1 | View::Hybrid => Path::new("/sys/fs/cgroup").join(controller),
    };
    top.join(path.trim_start_matches('/'))
}

/// Removes the suite's parent cgroups if they are empty.
pub fn remove_parents(view: View) {
    for hierarchy in hierarchies(view) {
        let _ = fs::remove_dir(hierarchy.join(PARENT.trim_start_matches('/')));
    }
}
