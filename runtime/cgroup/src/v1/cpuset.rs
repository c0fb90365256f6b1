//! Initializes a new v1 cpuset, which has neither CPUs nor memory nodes, and accepts no process until both are set.

use rustix::fs::OFlags;
use spec::resources::Cpu;
use sys::Errno;

use crate::directory::Directory;
use crate::{Error, Place};

/// Fills the empty files of the cpuset at `place`, and of its ancestors, with the values of their parents. `is_new`
/// means that this process created the cpuset, so its files are opened for writing at once. If `limits` specifies a
/// value for a file of the cpuset itself, that file is skipped, because its value is written later. Writing the
/// parent's full set first could fail: it may include CPUs that are exclusive to another child.
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

/// Fills one file with the parent's value. If the parent's file is empty, the parent is new too, and its file and those
/// of its ancestors are filled first.
fn fill(
    directory: &Directory,
    place: &Place,
    (file, above): (&str, &str),
    is_given: bool,
    is_new: bool,
) -> Result<(), Error> {
    let mut page = [0; 1024];
    // If this process created the cgroup, it may write the file. The file already has a value if cgroup.clone_children
    // is set in the parent.
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

/// Fills the file `file` of all ancestors, from the child of the mount point down to the parent.
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
        // A child of this cpuset already has CPUs or memory nodes that the value does not include. So another start has
        // filled this cpuset meanwhile.
        Err(error) if error.errno == Errno::BUSY => Ok(()),
        result => Ok(result?),
    }
}

fn is_empty(value: &str) -> bool {
    value.trim_end().is_empty()
}
