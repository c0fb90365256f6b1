//! `dayfly rootfs gc`: what killed commands have left.

use super::options::Gc;
use super::record::{Record, directories, homes, release, try_lock};
use super::{Result, plain};
use std::fs;
use std::path::Path;

/// Removes mounts, directories and ranges that nobody will ask for any more; says how many.
pub(super) fn collect(options: &Gc) -> Result<()> {
    let store = options.places.store()?;
    let leases = options.places.leases()?;
    let mut removed = 0;
    for home in homes(&store)? {
        let Some(_lock) = try_lock(&home)? else { continue };
        match Record::read(&home)? {
            Some(record) if record.is_mounted() => continue,
            Some(record) => record.release(&leases)?,
            None => release(&home)?,
        }
        removed += 1;
    }
    removed += collect_containers(&store)?;
    let ranges = leases.sweep().map_err(plain)?;
    println!("{removed} directories, {ranges} ranges of ids removed");
    Ok(())
}

/// Removes the directories of containers that are not there any more; returns how many. `dayfly image gc`
/// does this as well.
///
/// # Errors
/// A directory that can't be read or removed.
pub fn collect_containers(store: &Path) -> Result<usize> {
    let mut removed = 0;
    for directory in directories(&store.join("containers"))? {
        // The container's directory in a state root.
        let Ok(owner) = fs::read_link(directory.join("owner")) else { continue };
        let at_work = || try_lock(&owner).is_ok_and(|lock| lock.is_none());
        if owner.join("record").exists() || at_work() {
            continue;
        }
        release(&directory)?;
        removed += 1;
    }
    Ok(removed)
}
