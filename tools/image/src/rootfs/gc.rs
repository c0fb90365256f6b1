//! `dayfly rootfs gc`: removes mounts, directories and id ranges that killed commands have left
//! behind.

use super::mounted::{Mounted, directories, homes, release, try_lock};
use super::options::Gc;
use crate::error::{Result, unfit};
use report::count::counted;
use rootfs::home::Judge;
use std::path::Path;

/// Removes abandoned mounts, directories and id ranges, and prints how many were removed.
pub(super) fn collect(options: &Gc) -> Result<()> {
    let store = options.places.store.directory()?;
    let leases = options.places.leases()?;
    let mut left = Left::default();
    for home in homes(&store)? {
        let Some(_lock) = try_lock(&home)? else { continue };
        let mounts = match Mounted::read(&home)? {
            Some(record) if record.may_exist()? => continue,
            Some(record) => record.release(&leases)?,
            None => release(&home)?,
        };
        left.add(mounts);
    }
    collect_containers(&store, &mut left)?;
    let ranges = leases.sweep()?;
    let Left { directories, mounts } = left;
    let (directories, mounts) = (counted(directories, "directory"), counted(mounts, "mount"));
    println!("{directories}, {mounts}, {} of ids removed", counted(ranges, "range"));
    Ok(())
}

/// The numbers of removed directories and mounts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Left {
    /// The number of removed directories, each of a container or of a mount.
    pub directories: usize,
    /// The number of mounts that were removed from this mount namespace.
    pub mounts: usize,
}

impl Left {
    /// Counts one directory, with the mounts below it.
    fn add(&mut self, mounts: usize) {
        self.directories += 1;
        self.mounts += mounts;
    }
}

/// Removes the directories of containers that no longer exist, and the mounts below these directories, and counts them.
/// `dayfly image gc` also calls this function.
///
/// # Errors
/// A directory that cannot be read or removed.
pub fn collect_containers(store: &Path, left: &mut Left) -> Result<()> {
    let mut judge = Judge::default();
    for directory in directories(&store.join("containers"))? {
        let is_left = judge.is_left(&directory.to_string_lossy());
        if is_left.map_err(|error| unfit!("{}: {error}", directory.display()))? {
            left.add(release(&directory)?);
        }
    }
    Ok(())
}
