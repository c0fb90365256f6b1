//! Handing controllers down to a new cgroup through cgroup.subtree_control.

use alloc::string::{String, ToString};
use spec::resources::Resources;

use crate::directory::Directory;
use crate::{Error, Place};

/// Makes every controller of the hierarchy available in the cgroup at `place`.
///
/// All of them, not only those of the limits: engines read the accounting of memory, pids, cpu and
/// io, `update` may bring limits later, and an engine inside the container can hand down only what it
/// was given. The price is paid once per parent. Each write to cgroup.subtree_control takes a lock
/// of the whole host and goes through all children, so here nothing is written that is in place
/// already, which from the second start on is everything.
///
/// What cannot be enabled is passed over, as by runc: only if there is a limit to set does it matter,
/// and then the missing file says so.
///
/// # Errors
/// [`Error::Threaded`] if a domain controller is asked for where there can be none.
pub(crate) fn enable(
    directory: &Directory,
    place: &Place,
    resources: &Resources,
) -> Result<(), Error> {
    let mut page = [0; 256];
    let mut root_page = [0; 256];
    let here = directory.read_short("cgroup.controllers", &mut page)?;
    let root = Directory::open(place.mount())?;
    let all = root.read_short("cgroup.controllers", &mut root_page)?;
    if missing(all, here).next().is_none() {
        return Ok(());
    }
    hand_down(&root)?;
    for ancestor in place.ancestors().skip(1) {
        let ancestor = Directory::open(ancestor)?;
        check_mode(&ancestor, resources)?;
        hand_down(&ancestor)?;
    }
    check_mode(directory, resources)
}

/// The controllers of `all` that are not in `some`.
fn missing<'a>(all: &'a str, some: &'a str) -> impl Iterator<Item = &'a str> {
    all.split_whitespace().filter(move |name| !some.split_whitespace().any(|have| have == *name))
}

/// Enables in the children of `directory` what it has itself.
fn hand_down(directory: &Directory) -> Result<(), Error> {
    let mut page = [0; 256];
    let mut children_page = [0; 256];
    let here = directory.read_short("cgroup.controllers", &mut page)?;
    let children = directory.read_short("cgroup.subtree_control", &mut children_page)?;
    let mut request = String::new();
    for name in missing(here, children) {
        request.push_str(if request.is_empty() { "+" } else { " +" });
        request.push_str(name);
    }
    if request.is_empty() || directory.write("cgroup.subtree_control", &request).is_ok() {
        return Ok(());
    }
    // One that is refused, such as cpu while realtime tasks run, takes the others down with it.
    for name in request.split(' ') {
        let _ = directory.write("cgroup.subtree_control", name);
    }
    Ok(())
}

/// Refuses limits of domain controllers in a threaded subtree; without such limits, makes an invalid
/// cgroup threaded, the only thing it can be (cgroup-v2.rst, "Threads").
fn check_mode(directory: &Directory, resources: &Resources) -> Result<(), Error> {
    let mut page = [0; 32];
    let mode = directory.read_short("cgroup.type", &mut page)?.trim_end();
    if mode == "domain" {
        return Ok(());
    }
    if needs_domain(resources) {
        return Err(Error::Threaded {
            directory: directory.path().to_string(),
            mode: mode.to_string(),
        });
    }
    if mode == "domain invalid" {
        // If that fails, so does the clone into it, with an error of its own.
        let _ = directory.write("cgroup.type", "threaded");
    }
    Ok(())
}

/// Whether there are limits of memory, io or hugetlb, which know processes only, not threads.
fn needs_domain(resources: &Resources) -> bool {
    resources.memory.as_ref().is_some_and(|memory| {
        let set = |limit: Option<i64>| limit.is_some_and(|limit| limit != 0);
        set(memory.limit) || set(memory.reservation) || set(memory.swap)
    }) || resources.block_io.is_some()
        || !resources.hugepage_limits.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing() {
        let missing = |all, some| missing(all, some).collect::<Vec<_>>();
        assert_eq!(missing("cpu io memory\n", "io\n"), ["cpu", "memory"]);
        assert_eq!(missing("cpu\n", "cpu\n"), [""; 0]);
        assert_eq!(missing("cpu cpuset\n", "cpuset\n"), ["cpu"]);
        assert_eq!(missing("", ""), [""; 0]);
    }
}
