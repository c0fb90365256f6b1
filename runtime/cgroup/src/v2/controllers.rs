//! Enables controllers for a new cgroup, in the cgroup.subtree_control files of its ancestors.

use alloc::string::{String, ToString};
use spec::resources::Resources;

use crate::directory::{Directory, File};
use crate::{Error, Place};

/// Makes every controller of the hierarchy available in the cgroup at `place`.
///
/// All controllers are enabled, not only those of the specified limits, for three reasons: engines read the accounting
/// of memory, pids, cpu and io; `update` may set limits later; and an engine inside the container can only enable
/// controllers that are available there. Each write to cgroup.subtree_control takes a host-wide lock and visits all
/// children, so controllers that are already enabled are not written again. The cost therefore arises once per parent:
/// from the second start on, all controllers are enabled already.
///
/// As in runc, a controller that cannot be enabled is ignored. If one of its limits is specified, the missing file
/// causes an error later.
///
/// # Errors
/// [`Error::Threaded`] if a limit of a domain controller is specified in a threaded subtree.
pub(crate) fn enable(
    directory: &Directory,
    place: &Place,
    resources: &Resources,
) -> Result<(), Error> {
    let mut page = [0; 256];
    let mut root_page = [0; 256];
    let here = directory.read_short("cgroup.controllers", &mut page)?;
    let all = File::below(place.mount(), "cgroup.controllers")?.read_short(&mut root_page)?;
    if missing(all, here).next().is_none() {
        return Ok(());
    }
    hand_down(&Directory::open(place.mount())?)?;
    for ancestor in place.ancestors().skip(1) {
        let ancestor = Directory::open(ancestor)?;
        check_mode(&ancestor, resources)?;
        hand_down(&ancestor)?;
    }
    check_mode(directory, resources)
}

/// Returns the controllers in `all` that are not in `some`.
fn missing<'a>(all: &'a str, some: &'a str) -> impl Iterator<Item = &'a str> {
    all.split_whitespace().filter(move |name| !some.split_whitespace().any(|have| have == *name))
}

/// Enables all controllers of the cgroup `directory` for its children.
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
    // If the kernel refuses one controller (for example cpu, while realtime tasks run), the whole write fails.
    for name in request.split(' ') {
        let _ = directory.write("cgroup.subtree_control", name);
    }
    Ok(())
}

/// Returns an error if the cgroup is in a threaded subtree and limits of domain controllers are specified. Without such
/// limits, a cgroup of the type `domain invalid` is made threaded, the only valid type there (cgroup-v2.rst,
/// "Threads").
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
        // If this fails, clone3(2) into the cgroup fails as well, and returns its own error.
        let _ = directory.write("cgroup.type", "threaded");
    }
    Ok(())
}

/// Returns whether limits of memory, io or hugetlb are specified. These apply to whole processes, not to single
/// threads.
fn needs_domain(resources: &Resources) -> bool {
    resources.memory.as_ref().is_some_and(|memory| {
        let set = |limit: Option<i64>| limit.is_some_and(|limit| limit != 0);
        set(memory.limit) || set(memory.reservation) || set(memory.swap)
    }) || resources.block_io.is_some()
        || !resources.hugepage_limits.is_empty()
}
