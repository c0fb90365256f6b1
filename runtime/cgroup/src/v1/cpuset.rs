//! A new v1 cpuset has no CPUs and no memory nodes, and accepts no process until both are set.

use rustix::fs::OFlags;
use spec::resources::Cpu;
use sys::Errno;

use crate::directory::Directory;
use crate::{Error, Place};

/// Fills empty files of the cpuset at `place` and of its ancestors with their parents' values. `is_new` says whether
/// this process created the cpuset. Values given in `limits` are written later and are skipped here, because the
/// parent's CPUs may partly be exclusive to another child.
///
/// # Errors
/// Failing system calls.
pub(crate) fn inherit(
    directory: &Directory,
    place: &Place,
    is_new: bool,
    limits: Option<&Cpu>,
) -> Result<(), Error> {
    let is_given = |list: fn(&Cpu) -> &str| limits.is_some_and(|limits| !list(limits).is_empty());
    let (cpus, mems) = (is_given(|limits| &limits.cpus), is_given(|limits| &limits.mems));
    fill(directory, place, ("cpuset.cpus", "../cpuset.cpus"), cpus, is_new)?;
    fill(directory, place, ("cpuset.mems", "../cpuset.mems"), mems, is_new)
}

/// Fills one file. The parent has a value unless it is new, too; only then are the ancestors visited.
fn fill(
    directory: &Directory,
    place: &Place,
    (file, above): (&str, &str),
    is_given: bool,
    is_new: bool,
) -> Result<(), Error> {
    let mut page = [0; 1024];
    // A cgroup created by this process is writable; it already has a value if its parent sets cgroup.clone_children.
    let own = directory.file(file, if is_new { OFlags::RDWR } else { OFlags::RDONLY })?;
    if !is_empty(own.read_short(&mut page)?) {
        return Ok(());
    }
    let mut value = directory.read_short(above, &mut page)?;
    let mut filled = [0; 1024];
    if is_empty(value) {
        fill_ancestors(place, file)?;
        value = directory.read_short(above, &mut filled)?;
    }
    match (is_given, is_new) {
        (true, _) => Ok(()),
        (false, true) => passing_over_busy(own.write(value.trim_end())),
        (false, false) => write(directory, file, value),
    }
}

/// Fills one file from the mount point down to the parent.
fn fill_ancestors(place: &Place, file: &str) -> Result<(), Error> {
    let mut page = [0; 1024];
    let mut above = Directory::open(place.mount())?;
    for ancestor in place.ancestors().skip(1) {
        let ancestor = Directory::open(ancestor)?;
        if is_empty(ancestor.read_short(file, &mut page)?) {
            write(&ancestor, file, above.read_short(file, &mut page)?)?;
        }
        above = ancestor;
    }
    Ok(())
}

fn write(directory: &Directory, file: &str, value: &str) -> Result<(), Error> {
    passing_over_busy(directory.write(file, value.trim_end()))
}

fn passing_over_busy(written: Result<(), sys::Error>) -> Result<(), Error> {
    match written {
        // Another start filled the same parent, and its children already use less.
        Err(error) if error.errno == Errno::BUSY => Ok(()),
        result => Ok(result?),
    }
}

fn is_empty(value: &str) -> bool {
    value.trim_end().is_empty()
}
