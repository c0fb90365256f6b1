//! A new v1 cpuset has no CPUs and no memory nodes, and takes no process until it has.

use spec::resources::Cpu;
use sys::Errno;

use crate::directory::Directory;
use crate::{Error, Place};

/// Gives the cpuset at `place`, and those above it, what their parents have, where they have nothing.
/// What `limits` give will be written later and is left out, because the parent's CPUs may be
/// exclusive to another child in part.
///
/// # Errors
/// Failing system calls.
pub(crate) fn inherit(
    directory: &Directory,
    place: &Place,
    limits: Option<&Cpu>,
) -> Result<(), Error> {
    let is_given = |list: fn(&Cpu) -> &str| limits.is_some_and(|limits| !list(limits).is_empty());
    fill(directory, place, "cpuset.cpus", is_given(|limits| &limits.cpus))?;
    fill(directory, place, "cpuset.mems", is_given(|limits| &limits.mems))
}

/// Fills one file. The parent has a value unless it is new, too; only then is the way up walked.
fn fill(directory: &Directory, place: &Place, file: &str, is_given: bool) -> Result<(), Error> {
    let mut page = [0; 1024];
    if !is_empty(directory.read_short(file, &mut page)?) {
        return Ok(());
    }
    let parent = directory.open_child("..")?;
    let mut value = parent.read_short(file, &mut page)?;
    let mut filled = [0; 1024];
    if is_empty(value) {
        fill_ancestors(place, file)?;
        value = parent.read_short(file, &mut filled)?;
    }
    if is_given { Ok(()) } else { write(directory, file, value) }
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
    match directory.write(file, value.trim_end()) {
        // Another start filled the same parent, and its children already run with less.
        Err(error) if error.errno == Errno::BUSY => Ok(()),
        result => Ok(result?),
    }
}

fn is_empty(value: &str) -> bool {
    value.trim_end().is_empty()
}
