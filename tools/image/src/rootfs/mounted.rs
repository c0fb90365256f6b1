//! What is known of a mount: a directory in the store named after where it is mounted, with its changes and
//! a record.

use super::options::{Format, List};
use super::{Result, at, plain};
use rootfs::ids::{Leases, Owner};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directory of mounts in a store.
const MOUNTS: &str = "mounts";
/// The record in a mount's directory, which ranges of ids are freed without.
const RECORD: &str = "record";

/// A mount.
#[derive(Debug, Clone)]
pub(super) struct Mounted {
    /// Its directory in the store.
    pub home: PathBuf,
    /// Where it is mounted.
    pub directory: PathBuf,
    /// What was asked for: image or list of layers.
    pub source: String,
    /// How it was assembled.
    pub mode: String,
    /// How many layers it has.
    pub layers: usize,
    /// The first of its ids, how many, and whether they were taken for it.
    pub ids: Option<(u32, u32, bool)>,
    /// Nanoseconds since 1970.
    pub since: u64,
}

impl Mounted {
    /// The directory in the store of what is mounted at a directory.
    pub fn home_of(store: &Path, directory: &Path) -> PathBuf {
        let name = directory.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        store.join(MOUNTS).join(name)
    }

    /// Whom its ids are taken for.
    pub fn owner(&self) -> Owner {
        Owner { since: self.since, directory: self.home.to_string_lossy().into_owned() }
    }

    /// Writes it; from then on `umount` can take all of it back.
    pub fn write(&self) -> Result<()> {
        let ids = self.ids.map(|(first, count, own)| json!([first, count, own]));
        let text = json!({
            "directory": self.directory, "source": self.source, "mode": self.mode,
            "layers": self.layers, "ids": ids, "since": self.since,
        });
        let new = self.home.join("record.new");
        fs::write(&new, text.to_string())
            .and_then(|()| fs::rename(&new, self.home.join(RECORD)))
            .map_err(at(format_args!("write {}", new.display())))
    }

    /// Reads one; none if it was never finished.
    pub fn read(home: &Path) -> Result<Option<Self>> {
        let path = home.join(RECORD);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(at(format_args!("read {}", path.display())))?,
        };
        let value: Value = serde_json::from_slice(&text).unwrap_or_default();
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let ids = number(&value["ids"][0]).zip(number(&value["ids"][1]));
        Ok(Some(Self {
            home: home.to_owned(),
            directory: word("directory").into(),
            source: word("source"),
            mode: word("mode"),
            layers: value["layers"].as_u64().unwrap_or_default() as usize,
            ids: ids.map(|(first, count)| (first, count, value["ids"][2] == true)),
            since: value["since"].as_u64().unwrap_or_default(),
        }))
    }

    /// All of a store.
    pub fn all(store: &Path) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for home in homes(store)? {
            all.extend(Self::read(&home)?);
        }
        Ok(all)
    }

    /// Whether something is mounted where the record says, in the mount namespace of any process.
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

    /// Takes back what it has of the host, once it is not mounted any more; says how many mounts that were.
    pub fn release(&self, leases: &Leases) -> Result<usize> {
        let mounts = release(&self.home)?;
        if let Some((first, _, true)) = self.ids {
            leases.give_back(first, &self.owner()).map_err(plain)?;
        }
        Ok(mounts)
    }
}

/// A path as mountinfo has it (proc(5)).
fn escaped(path: &Path) -> String {
    let mut text = path.to_string_lossy().into_owned();
    for (byte, octal) in [("\\", "\\134"), (" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")] {
        text = text.replace(byte, octal);
    }
    text
}

/// The directories of all mounts of a store.
pub(super) fn homes(store: &Path) -> Result<Vec<PathBuf>> {
    directories(&store.join(MOUNTS))
}

/// The directories in a directory; none if that is not there.
pub(super) fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(format_args!("read {}", path.display())))?,
    };
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    Ok(all)
}

/// Removes a directory of the store, with mounts that a killed command left below it; says how many.
pub(super) fn release(home: &Path) -> Result<usize> {
    let path = c_path(home);
    let mounts = rootfs::unmount_below(&path).map_err(|error| error.to_string())?;
    rootfs::remove_all(&path).map_err(|error| error.to_string())?;
    Ok(mounts)
}

/// Locks a directory for as long as the descriptor lives; none if somebody is at work on it.
pub(super) fn try_lock(home: &Path) -> Result<Option<OwnedFd>> {
    let directory = fs::File::open(home).map_err(at(format_args!("open {}", home.display())))?;
    let directory = OwnedFd::from(directory);
    Ok(flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(directory))
}

pub(super) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// `dayfly rootfs ls`
pub(super) fn list(options: &List) -> Result<()> {
    let all = Mounted::all(&options.places.store()?)?;
    if options.format == Format::Json {
        let all = all.iter().map(|record| {
            json!({
                "directory": record.directory, "source": record.source, "mode": record.mode,
                "layers": record.layers, "mounted": record.is_mounted(),
                "ids": record.ids.map(|(first, count, _)| json!({ "first": first, "count": count })),
            })
        });
        println!("{:#}", Value::Array(all.collect()));
        return Ok(());
    }
    println!(
        "{:<32} {:<9} {:>6} {:<12} {:<9} SOURCE",
        "DIRECTORY", "MODE", "LAYERS", "IDS", "STATE"
    );
    for record in all {
        let ids = record.ids.map_or("host".to_owned(), |(first, ..)| first.to_string());
        let state = if record.is_mounted() { "mounted" } else { "stale" };
        let directory = record.directory.display().to_string();
        let Mounted { mode, layers, source, .. } = &record;
        println!("{directory:<32} {mode:<9} {layers:>6} {ids:<12} {state:<9} {source}");
    }
    Ok(())
}
