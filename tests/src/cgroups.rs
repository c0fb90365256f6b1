//! Where the suite's cgroups are, in each view.

use crate::view::View;
use std::fs;
use std::path::{Path, PathBuf};

/// The parent of every cgroup the suite makes, from the hierarchy's root.
pub const PARENT: &str = "/dayfly-test";

/// The `cgroupsPath` of a container.
#[must_use]
pub fn path_of(id: &str) -> String {
    format!("{PARENT}/{id}")
}

/// Every mounted hierarchy of this view.
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

/// The directory of `path` under `controller` (`memory`, `pids`, …). In the v2
/// view every controller is in the one tree.
#[must_use]
pub fn dir(view: View, controller: &str, path: &str) -> PathBuf {
    let top = match view {
        View::V2 => PathBuf::from("/sys/fs/cgroup"),
        View::V1 | View::Hybrid => Path::new("/sys/fs/cgroup").join(controller),
    };
    top.join(path.trim_start_matches('/'))
}

/// Removes the suite's parents where they are empty.
pub fn remove_parents(view: View) {
    for hierarchy in hierarchies(view) {
        let _ = fs::remove_dir(hierarchy.join(PARENT.trim_start_matches('/')));
    }
}
