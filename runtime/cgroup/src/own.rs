//! The cgroups of a process, according to /proc/PID/cgroup.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::hierarchies::Hierarchy;
use crate::{Controllers, Hierarchies};

/// Iterates over the lines of /proc/PID/cgroup, which have the form `ID:CONTROLLERS:PATH` (cgroups(7)). Each item is
/// the list of controllers, which is empty for cgroup v2, and the path. Lines of another form are skipped.
pub fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

/// The cgroups of a process, from /proc/PID/cgroup.
pub(crate) struct OwnCgroups<'a> {
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> OwnCgroups<'a> {
    /// Parses the text of /proc/PID/cgroup.
    pub fn new(text: &'a str) -> Self {
        Self { lines: lines(text).collect() }
    }

    /// Returns whether the process is below the root in any v1 hierarchy.
    pub fn has_legacy(&self) -> bool {
        self.lines.iter().any(|(controllers, path)| !controllers.is_empty() && *path != "/")
    }

    fn path(&self, hierarchy: Option<&Hierarchy>) -> &'a str {
        let is_it = |list: &str| match hierarchy {
            None => list.is_empty(),
            Some(hierarchy) => {
                let set = Controllers::from_list(list);
                hierarchy.controllers.iter().any(|controller| set.contains(controller))
            }
        };
        self.lines.iter().find(|(list, _)| is_it(list)).map_or("/", |(_, path)| path)
    }

    /// Returns the process's cgroup in a v1 hierarchy, or its v2 cgroup if `hierarchy` is `None`. The result is empty
    /// if the cgroup is outside the cgroup namespace.
    pub fn whole(&self, hierarchy: Option<&Hierarchy>) -> String {
        inside(self.path(hierarchy))
    }

    /// Returns the directory to which relative paths are relative, as a path below the mount point, without a trailing
    /// slash. For v2 on a hybrid host, this is the root, as with runc.
    pub fn base(
        &self,
        hierarchies: &Hierarchies,
        hierarchy: Option<&Hierarchy>,
        mounts: &str,
    ) -> String {
        let path = match hierarchy {
            None if !hierarchies.is_unified() => "/",
            None => {
                let own = self.path(None);
                own.rsplit_once('/').map_or("/", |(parent, _)| parent)
            }
            Some(hierarchy) => {
                let own = self.path(Some(hierarchy));
                let root = mount_root(mounts, &hierarchy.mount).unwrap_or("/");
                match own.strip_prefix(root.trim_end_matches('/')) {
                    Some(inside) if inside.is_empty() || inside.starts_with('/') => inside,
                    _ => "/",
                }
            }
        };
        // In a cgroup namespace, the path of a cgroup outside the namespace contains `..`.
        inside(path)
    }
}

/// A path from the mount; none if it leads out of the cgroup namespace.
fn inside(path: &str) -> String {
    match path.split('/').any(|part| part == "..") {
        true => String::new(),
        false => path.trim_end_matches('/').to_string(),
    }
}

/// Returns the root of the mount at `mount_point`, according to /proc/self/mountinfo (proc_pid_mountinfo(5)).
fn mount_root<'a>(mounts: &'a str, mount_point: &str) -> Option<&'a str> {
    // If a mount point has several lines, the last line is the topmost mount.
    mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let root = fields.next()?;
        (fields.next()? == mount_point).then_some(root)
    })
}
