//! The cgroups of a container that a checkpoint saves.
//!
//! In each hierarchy, criu saves the cgroup of the container's init with all cgroups below it, and
//! a restore creates the saved cgroups that are missing. If the container has no cgroup of its own
//! in a hierarchy, its processes share a cgroup with other programs, often the root. This is also
//! possible in a hierarchy that dayfly uses, because dayfly skips hierarchies in which it cannot
//! create a cgroup. criu would then save the cgroups of other programs, and a restore would create
//! them again. criu therefore receives a list of the hierarchies that it may save.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use cgroup::Location;
use proto::messages::criu::{CgroupRoot, Cgroups};
use sys::Context;

use super::format::{self, messages};
use super::images::Directory;
use super::process::Process;
use crate::Error;

#[cfg(test)]
mod tests;

/// The image of the saved cgroups.
const IMAGE: &str = "cgroup.img";
/// A list of controllers that no hierarchy has. With an empty list of hierarchies, criu would save all hierarchies.
const NO_HIERARCHY: &str = "none";

/// Returns the hierarchies in which the container has its own cgroup, named as in /proc/PID/cgroup.
pub(super) fn saved(location: Option<&Location>, process: &Process) -> Result<Vec<String>, Error> {
    let file = process.path("cgroup");
    let text = sys::fs::read_text(file.as_str()).context("read", &file)?;
    Ok(own_hierarchies(location, &text))
}

fn own_hierarchies(location: Option<&Location>, text: &str) -> Vec<String> {
    let is_own = |(list, path): &(&str, &str)| {
        let place = location.and_then(|location| location.in_hierarchy(list));
        place.is_some_and(|place| is_at_or_below(path, place.path()))
    };
    let own: Vec<String> =
        cgroup::lines(text).filter(is_own).map(|(list, _)| list.to_string()).collect();
    if own.is_empty() { [NO_HIERARCHY.to_string()].into() } else { own }
}

/// Returns whether the cgroup `path`, from /proc/PID/cgroup, is the container's cgroup or below it. Init may have moved
/// to a cgroup below the container's. `own` is the path of the container's cgroup relative to the mount point. If the
/// mount shows only a part of the hierarchy, `path` begins with the path of this part.
fn is_at_or_below(path: &str, own: &str) -> bool {
    !own.is_empty() && format!("{path}/").contains(&format!("{own}/"))
}

/// Returns criu's own cgroup in each hierarchy. This cgroup is the root of the container's cgroups.
pub(super) fn cgroup_roots(pid: i32) -> Result<Vec<CgroupRoot>, Error> {
    let file = format!("/proc/{pid}/cgroup");
    let text = sys::fs::read_text(file.as_str()).context("read", &file)?;
    let roots = cgroup::lines(&text).flat_map(|(list, path)| {
        list.split(',').map(|controller| CgroupRoot {
            controller: Some(controller.to_string()),
            path: path.to_string(),
        })
    });
    Ok(roots.collect())
}

/// Returns whether all saved processes were in the cgroups `roots`, without cgroups below and without a cgroup namespace.
/// criu then has nothing to do that its own place does not do: each restored process begins in the cgroups of criu.
pub(super) fn are_those_of(roots: &[CgroupRoot], images: &Directory) -> bool {
    let image = images.read(IMAGE, 1 << 22).unwrap_or_default();
    let message = messages(&image, format::CGROUPS);
    let saved = message.and_then(|all| Cgroups::decode(all.first()?).ok());
    saved.is_some_and(|saved| are_equal(roots, &saved))
}

fn are_equal(roots: &[CgroupRoot], saved: &Cgroups) -> bool {
    let [set] = saved.sets.as_slice() else { return false };
    let mut directories = saved.hierarchies.iter().flat_map(|one| &one.directories);
    directories.all(|directory| directory.children.is_empty())
        && set.members.iter().all(|member| {
            let is_here = |root: &CgroupRoot| {
                root.controller.as_ref() == Some(&member.name) && root.path == member.path
            };
            member.namespace_prefix == 0 && roots.iter().any(is_here)
        })
}
