//! The cgroups of a template and its containers.
//!
//! A process is moved to a cgroup of cgroup v2 only after an RCU grace period, some 10 ms on an idle host. The child is
//! created in its cgroup instead (CLONE_INTO_CGROUP). For that, the kernel wants the caller of clone3(2), the template,
//! to be able to write cgroup.procs of the child's cgroup and of the common ancestor of both cgroups
//! (`cgroup_attach_permissions`). So templates have a cgroup of their own above both, whose cgroup.procs belongs to the
//! root of the template's user namespace. No path of the template leads there. A container whose cgroup is elsewhere
//! moves there by itself.
//!
//! The template gets the child's cgroup as a descriptor on a detached read-only mount (`fork.rs`). It could attach this
//! mount and make it writable, but only `cgroup.procs` belongs to it.
//!
//! The parent is the last to close this mount, because the close waits for an RCU grace period, some 0.1 ms. A template
//! has no cgroup namespace: with `nsdelegate`, a process cannot be cloned into a cgroup outside of its own.

use alloc::format;
use alloc::string::String;

use cgroup::Location;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Uid, chownat, statat, unlinkat};
use spec::IdMapping;

/// The end of the name of the common ancestor.
const SUFFIX: &str = ".template";
/// The name of a template's own cgroup.
const PROGRAM: &str = "program";

/// Returns the path of a template's cgroup, below the parent of the cgroup that the configuration names.
pub(super) fn of_template(configured: Option<&str>, name: &str) -> String {
    let parent = configured.filter(|path| path.starts_with('/'));
    let parent = parent.and_then(|path| path.trim_end_matches('/').rsplit_once('/'));
    let parent = parent.map_or("", |(parent, _)| parent);
    format!("{parent}/{name}{SUFFIX}/{PROGRAM}")
}

/// Returns the path of the cgroup of a container that a template forks, or `None` if the template's own cgroup is not
/// in the usual place.
pub(super) fn of_child(template: &Location, id: &str) -> Option<String> {
    let path = template.unified.as_ref().or(template.legacy.first().map(|legacy| &legacy.place));
    let is_usual = template.unit.is_none() && id != PROGRAM;
    let above = path?.path().strip_suffix(PROGRAM).filter(|_| is_usual)?;
    Some(format!("{above}{id}"))
}

/// Returns the uid on the host of the root of a user namespace.
pub(super) fn root_of(mappings: &[IdMapping]) -> Option<Uid> {
    let of_root = mappings.iter().find(|mapping| mapping.container_id == 0);
    of_root.filter(|mapping| mapping.size > 0).map(|mapping| Uid::from_raw(mapping.host_id))
}

/// Lets the root of a template's user namespace fork into cgroups beside the template's own. Best effort: without this
/// right, children move by themselves.
pub(crate) fn grant(template: &Location, mappings: &[IdMapping]) {
    let above = template.unified.as_ref().and_then(|place| above(place.directory()));
    if let (Some(above), Some(root)) = (above, root_of(mappings)) {
        give(above, root);
    }
}

/// Lets the root of a template's user namespace fork into this cgroup of cgroup v2. Returns false if the kernel would
/// not permit it, because the cgroup is not beside the template's.
pub(super) fn grant_child(template: &Location, child: &Location, root: Uid) -> bool {
    let (Some(template), Some(child)) = (&template.unified, &child.unified) else { return false };
    let above = above(template.directory());
    above.is_some()
        && above == child.directory().rsplit_once('/').map(|(above, _)| above)
        && give(child.directory(), root)
}

fn give(directory: &str, root: Uid) -> bool {
    let path = format!("{directory}/cgroup.procs");
    chownat(CWD, path.as_str(), Some(root), None, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Returns the common ancestor, if this is a directory right below it.
fn above(directory: &str) -> Option<&str> {
    let (above, _) = directory.rsplit_once('/')?;
    above.ends_with(SUFFIX).then_some(above)
}

/// Removes the common ancestor after its last cgroup, once the template is gone. `root` is the state root.
pub(crate) fn tidy(root: BorrowedFd<'_>, location: &Location) {
    let legacy = location.legacy.iter().map(|legacy| &legacy.place);
    for above in location.unified.iter().chain(legacy).filter_map(|place| above(place.directory()))
    {
        let name = above.rsplit_once('/').and_then(|(_, name)| name.strip_suffix(SUFFIX));
        if name.is_some_and(|name| statat(root.as_fd(), name, AtFlags::empty()).is_err()) {
            let _ = unlinkat(CWD, above, AtFlags::REMOVEDIR);
        }
    }
}
