//! The state of a mount: a directory in the store, named after the mount point, with its changes and a record.

use super::options::List;
use crate::error::{Error, Result, c_path, if_there, unfit};
use report::{Format, Table, say, sayln};
use rootfs::home::Judge;
use rootfs::ids::{Leases, Owner};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The directory of the mounts' state in a store.
const MOUNTS: &str = "mounts";
/// The record in a mount's directory; without a record, the mount's id range can be freed.
const RECORD: &str = "record";

/// A mount.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Mounted {
    /// The directory of the mount in the store.
    #[serde(skip)]
    pub home: PathBuf,
    /// The mount point.
    pub directory: PathBuf,
    /// The source of the mount: an image or a list of layers.
    pub source: String,
    /// The mode in which the layers were assembled.
    pub mode: String,
    /// The number of layers.
    pub layers: usize,
    /// The first id of the mount, the number of ids, and whether the ids were leased for this mount.
    #[serde(default)]
    pub ids: Option<(u32, u32, bool)>,
    /// The time when the mount was made, in nanoseconds since 1970.
    #[serde(default)]
    pub since: u64,
    /// The inode of the mount namespace in which the mount was made; 0 if unknown.
    #[serde(default)]
    pub namespace: u64,
}

impl Mounted {
    /// Returns the directory in the store for a mount point.
    pub fn home_of(store: &Path, directory: &Path) -> PathBuf {
        let name = directory.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        store.join(MOUNTS).join(name)
    }

    /// Returns the mount as the owner of its id lease.
    pub fn owner(&self) -> Owner {
        Owner { since: self.since, directory: self.home.to_string_lossy().into_owned() }
    }

    /// Writes the record; from then on, `umount` can undo everything.
    pub fn write(&self) -> Result<()> {
        let new = self.home.join("record.new");
        serde_json::to_vec(self)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, self.home.join(RECORD)))
            .map_err(Error::at("write", &new))
    }

    /// Reads a record; returns `None` if the record was never finished.
    pub fn read(home: &Path) -> Result<Option<Self>> {
        let path = home.join(RECORD);
        let text = if_there(fs::read(&path)).map_err(Error::at("read", &path))?;
        let record = text.map(|text| {
            serde_json::from_slice(&text)
                .map_err(|error| unfit!("{} is damaged: {error}", path.display()))
        });
        Ok(record.transpose()?.map(|record| Self { home: home.to_owned(), ..record }))
    }

    /// Reads all records of a store.
    pub fn all(store: &Path) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for home in homes(store)? {
            all.extend(Self::read(&home)?);
        }
        Ok(all)
    }

    /// Returns whether something is mounted at the mount point in the mount namespace of any process.
    pub fn is_mounted(&self) -> bool {
        let place = escaped(&self.directory);
        let mut seen = BTreeSet::new();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let own = std::iter::once(PathBuf::from("/proc/self"));
        own.chain(processes.map(|entry| entry.path())).any(|process| {
            let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { return false };
            seen.insert(namespace)
                && fs::read_to_string(process.join("mountinfo")).is_ok_and(|text| {
                    text.lines().any(|line| line.split(' ').nth(4) == Some(&place))
                })
        })
    }

    /// Returns whether the mount exists or, as far as can be seen here, may exist in another mount namespace.
    pub fn may_exist(&self) -> Result<bool> {
        let is_gone = || Judge::default().is_out_of_sight(self.namespace);
        Ok(self.is_mounted() || !is_gone()?)
    }

    /// Frees the mount's resources on the host after the mount point was unmounted. Returns the number of remaining
    /// mounts that were removed.
    pub fn release(&self, leases: &Leases) -> Result<usize> {
        let mounts = release(&self.home)?;
        if let Some((first, _, true)) = self.ids {
            leases.give_back(first, &self.owner())?;
        }
        Ok(mounts)
    }
}

/// Escapes a path as mountinfo does (proc(5)).
fn escaped(path: &Path) -> String {
    let mut text = path.to_string_lossy().into_owned();
    for (byte, octal) in [("\\", "\\134"), (" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")] {
        text = text.replace(byte, octal);
    }
    text
}

/// Returns the directories in the store that belong to mounts.
pub(super) fn homes(store: &Path) -> Result<Vec<PathBuf>> {
    directories(&store.join(MOUNTS))
}

/// Returns the directories in the directory `path`, or none if `path` does not exist.
pub(super) fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = if_there(fs::read_dir(path)).map_err(Error::at("read", path))?;
    let mut all: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    Ok(all)
}

/// Removes a directory of the store, and the mounts that a killed command left below it; returns the number of these
/// mounts.
pub(super) fn release(home: &Path) -> Result<usize> {
    let path = c_path(home)?;
    let mounts = rootfs::unmount_below(&path)?;
    rootfs::remove_all(&path)?;
    Ok(mounts)
}

/// Locks a directory until the descriptor is closed; returns `None` if another process holds the lock.
pub(super) fn try_lock(home: &Path) -> Result<Option<OwnedFd>> {
    let directory = fs::File::open(home).map_err(Error::at("open", home))?;
    let is_free = flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_free.then(|| directory.into()))
}

/// Lists the mounts: `dayfly rootfs ls`.
pub(super) fn list(options: &List) -> Result<()> {
    let all = Mounted::all(&options.places.store.directory()?)?;
    if options.format == Format::Json {
        let all = all.iter().map(|record| {
            json!({
                "directory": record.directory, "source": record.source, "mode": record.mode,
                "layers": record.layers, "mounted": record.is_mounted(),
                "ids": record.ids.map(|(first, count, _)| json!({ "first": first, "count": count })),
            })
        });
        sayln!("{:#}", Value::Array(all.collect()));
        return Ok(());
    }
    let headings = ["DIRECTORY", "MODE", "LAYERS", "IDS", "STATE", "SOURCE"];
    let mut table = Table::new(&headings).left(&[0, 1, 3, 4, 5]);
    for record in all {
        let ids = record.ids.map_or("host".to_owned(), |(first, ..)| first.to_string());
        let state = if record.is_mounted() { "mounted" } else { "stale" }.to_owned();
        let Mounted { directory, mode, layers, source, .. } = record;
        let directory = directory.display().to_string();
        table.row(vec![directory, mode, layers.to_string(), ids, state, source]);
    }
    say!("{table}");
    Ok(())
}
