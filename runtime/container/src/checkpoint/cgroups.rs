//! The cgroups of a container in the images.
//!
//! criu saves the cgroup of the container's init in each hierarchy, with all cgroups below it, and the restore creates
//! those that are missing. If the container has no cgroup of its own in a hierarchy, its processes are in a cgroup that
//! others use as well, often the root. criu would then save the cgroups of other programs, and restore them after those
//! programs have removed them. criu therefore receives the list of hierarchies that it may save.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use cgroup::Location;
use proto::messages::criu::CgroupRoot;
use sys::Context;

use super::process::Process;
use crate::Error;

/// A list that no hierarchy has. With an empty list of hierarchies, criu would save all of them.
const NO_HIERARCHY: &str = "none";

/// Returns the hierarchies in which the container has its own cgroup, named as in /proc/PID/cgroup.
pub(super) fn saved(location: Option<&Location>, process: &Process) -> Result<Vec<String>, Error> {
    let file = process.path("cgroup");
    let text = sys::fs::read_text(file.as_str()).context("read", &file)?;
    Ok(own_hierarchies(location, &text))
}

fn own_hierarchies(location: Option<&Location>, text: &str) -> Vec<String> {
    let is_own = |(list, path): &(&str, &str)| {
        // A container never has the root cgroup.
        *path != "/" && location.is_some_and(|location| location.has_hierarchy(list))
    };
    let own: Vec<String> = lines(text).filter(is_own).map(|(list, _)| list.to_string()).collect();
    if own.is_empty() { [NO_HIERARCHY.to_string()].into() } else { own }
}

/// Returns criu's own cgroup in each hierarchy, which is the root of the container's cgroups.
pub(super) fn cgroup_roots(pid: i32) -> Result<Vec<CgroupRoot>, Error> {
    let file = format!("/proc/{pid}/cgroup");
    let text = sys::fs::read_text(file.as_str()).context("read", &file)?;
    let roots = lines(&text).flat_map(|(list, path)| {
        list.split(',').map(|controller| CgroupRoot {
            controller: Some(controller.to_string()),
            path: path.to_string(),
        })
    });
    Ok(roots.collect())
}

/// Iterates over the lines of /proc/PID/cgroup: the list of controllers, and the path.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

#[cfg(test)]
mod tests {
    use cgroup::{Controllers, Hierarchies, Hierarchy};

    use super::*;

    fn location(unified: Option<&str>, legacy: &[&str]) -> Location {
        let hierarchy = |name: &&str| Hierarchy {
            controllers: Controllers::from_list(name),
            mount: format!("/cg/{name}"),
        };
        let hierarchies = Hierarchies {
            root: "/cg".into(),
            unified: unified.map(String::from),
            legacy: legacy.iter().map(hierarchy).collect(),
        };
        Location::resolve(&hierarchies, Some("/pod/c"), "c").unwrap()
    }

    #[test]
    fn hierarchies_with_an_own_cgroup() {
        let text = "5:name=systemd:/init.scope\n4:cpu,cpuacct:/pod/c\n3:memory:/pod/c\n2:pids:/\n0::/pod/c\n";
        let hybrid = location(Some("/cg/unified"), &["cpu,cpuacct", "memory", "pids"]);
        assert_eq!(own_hierarchies(Some(&hybrid), text), ["cpu,cpuacct", "memory", ""]);
        assert_eq!(own_hierarchies(Some(&location(Some("/cg"), &[])), text), [""]);
        assert_eq!(own_hierarchies(Some(&location(None, &["memory"])), text), ["memory"]);
        assert_eq!(own_hierarchies(Some(&location(Some("/cg"), &[])), "0::/\n"), ["none"]);
        assert_eq!(own_hierarchies(None, text), ["none"]);
    }
}
