//! Pools: cgroups that are created in advance with the same memory limit. Each cgroup is used by one container.
//!
//! Most of the kernel's counters of a cgroup, such as events and CPU time, cannot be reset; the peak usage can be reset
//! only for a single reader (Linux 6.12). So a cgroup is never reused: when a container is deleted, its cgroup is
//! removed, and the process that maintains the pool ([`fill`], [`replace`]) creates a new cgroup under a new name. The
//! command `delete` does not create the new cgroup, because that would take as long as a start without a pool.
//!
//! A pool is a subdirectory of [`POOLS`], accessible only to root. The pool's subdirectory `free/` contains a file for
//! each free cgroup. Its subdirectory `taken/` contains a file for each cgroup that is in use, or being created or
//! removed. A start takes a free cgroup by moving the file with rename(2). So two starts never take the same cgroup,
//! and starts need no lock. Processes that fill or remove a pool lock it. A cgroup's file exists as long as the cgroup:
//! if a command is killed at any point, the next command that fills the pool finds the cgroups that the killed command
//! left behind.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, DirEntry, FlockOperation, Mode, OFlags, mkdir, openat, rename, rmdir,
    statat, unlink,
};
use rustix::time::{ClockId, clock_gettime};
use spec::resources::{Memory, Resources};
use sys::{Context, Errno};

use crate::{Cgroup, Error, Hierarchies, Location, processes};

/// The directory that contains the pools. Pools were formerly called tiers. The directory keeps this name, so that the
/// pools of an older dayfly, and their cgroups in the records of containers, are still found.
pub const POOLS: &str = "/run/dayfly-tiers";

/// The parent cgroup of all pools, relative to the root of each hierarchy.
const PARENT: &str = "/dayfly-tiers";

/// A cgroup in `taken/` without processes counts as lost after this number of seconds: the start that took it, or the
/// process that was creating it for the pool, was killed.
const LOST_AFTER: i64 = 60;
/// The time to wait for a process that fills or removes a pool.
const PATIENCE: Duration = Duration::from_secs(60);

/// A memory size, such as `256M`. Its text is also the pool's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    bytes: i64,
    name: String,
}

impl Size {
    /// Parses digits followed by K, M or G.
    ///
    /// # Errors
    /// [`Error::BadPool`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::BadPool { pool: text.to_string(), reason: "give a size such as 256M" };
        let shift = match text.as_bytes().last() {
            Some(b'K') => 10,
            Some(b'M') => 20,
            Some(b'G') => 30,
            _ => return Err(wrong()),
        };
        let digits = text.get(..text.len() - 1).unwrap_or_default();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        let number: i64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)?;
        Ok(Self { bytes, name: text.to_string() })
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Returns the text from which the size was parsed.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn directory(&self, part: &str) -> String {
        format!("{POOLS}/{}/{part}", self.name)
    }

    fn location(&self, hierarchies: &Hierarchies, name: &str) -> Location {
        Location::at(hierarchies, &format!("{PARENT}/{}/{name}", self.name))
    }
}

/// The state of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The size of the pool's cgroups.
    pub size: Size,
    /// The number of free cgroups.
    pub free: usize,
    /// The number of cgroups in use.
    pub taken: usize,
}

/// A cgroup that a start took from a pool. When this value is dropped, the cgroup is removed, unless it was
/// [kept](Taken::keep).
#[derive(Debug)]
pub struct Taken {
    /// The location of the cgroup.
    pub location: Location,
    /// The memory limit that the start must set itself, because the pool was empty; otherwise
    /// `None`.
    pub limit: Option<i64>,
    kept: Cell<bool>,
}

impl Taken {
    /// Keeps the cgroup for the container. [`release`] removes the cgroup's file when the container is deleted.
    pub fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.kept.get() {
            // Failures are ignored, because the caller already reports an error.
            let _ = Cgroup::delete(&self.location);
            let _ = release(&self.location);
        }
    }
}

/// Creates the pool of `size` if it is missing, and creates cgroups until `count` are free. Returns the number of
/// cgroups created. Cgroups left behind by killed starts are removed.
///
/// # Errors
/// Failing system calls.
pub fn fill(hierarchies: &Hierarchies, size: &Size, count: usize) -> Result<usize, Error> {
    for directory in
        [POOLS.to_string(), size.directory(""), size.directory("free"), size.directory("taken")]
    {
        match mkdir(directory.as_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(sys::Error::new("mkdir", directory, errno).into()),
        }
    }
    let _lock = lock(size)?;
    clear_lost(hierarchies, size)?;
    let free = names(&size.directory("free"))?.len();
    for _ in free..count {
        add(hierarchies, size)?;
    }
    Ok(count.saturating_sub(free))
}

/// Creates cgroups until the pool of `size` has `count` cgroups, including those in use. Cgroups left behind by killed
/// starts are removed.
///
/// # Errors
/// [`Error::NoPool`] if the pool no longer exists; failing system calls.
pub fn replace(hierarchies: &Hierarchies, size: &Size, count: usize) -> Result<(), Error> {
    let _lock = lock(size).map_err(|error| no_pool(error, size))?;
    let held = |part: &str| names(&size.directory(part)).map_err(|error| no_pool(error, size));
    held("free")?;
    clear_lost(hierarchies, size)?;
    for _ in held("free")?.len() + held("taken")?.len()..count {
        add(hierarchies, size)?;
    }
    Ok(())
}

/// Returns a directory that the caller can watch with inotify(7): a file in it is deleted whenever
/// the pool loses a cgroup.
pub fn watched(size: &Size) -> String {
    size.directory("taken")
}

/// Takes a free cgroup from the pool of `size`. If the pool is empty, returns the location of a cgroup that the start
/// must create.
///
/// # Errors
/// [`Error::NoPool`] if there is no such pool; failing system calls.
pub fn take(hierarchies: &Hierarchies, size: &Size) -> Result<Taken, Error> {
    let free = size.directory("free");
    let opened = sys::fs::open_dir(CWD, free.as_str()).context("open", &free);
    let opened = opened.map_err(|error| no_pool(error.into(), size))?;
    for entry in Dir::new(opened).context("read", &free)? {
        let entry = entry.context("read", &free)?;
        let Some(name) = name_of(&entry) else { continue };
        let from = format!("{free}/{name}");
        match rename(from.as_str(), format!("{}/{name}", size.directory("taken"))) {
            Ok(()) => {
                return Ok(Taken {
                    location: size.location(hierarchies, name),
                    limit: None,
                    kept: Cell::new(false),
                });
            }
            // Another start has taken this cgroup.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(sys::Error::new("rename", from, errno).into()),
        }
    }
    let location = size.location(hierarchies, &unique());
    Ok(Taken { location, limit: Some(size.bytes), kept: Cell::new(false) })
}

/// Removes the file of a cgroup whose container was deleted, if the cgroup came from a pool. The pool has one cgroup
/// fewer until it is filled again.
///
/// # Errors
/// Failing system calls.
pub fn release(location: &Location) -> Result<(), Error> {
    let Some((size, name)) = pooled(location) else { return Ok(()) };
    match unlink(format!("{}/{name}", size.directory("taken"))) {
        // There is no file if the pool was empty when the cgroup was created, or if the pool was removed.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(sys::Error::new("unlink", size.directory("taken"), errno).into()),
    }
}

/// Returns all pools, smallest size first.
///
/// # Errors
/// Failing system calls.
pub fn pools() -> Result<Vec<Pool>, Error> {
    let sizes = match names(POOLS) {
        Err(Error::System(error)) if error.errno == Errno::NOENT => return Ok(Vec::new()),
        result => result?,
    };
    let mut pools = Vec::new();
    for size in sizes.iter().filter_map(|name| Size::parse(name).ok()) {
        let free = names(&size.directory("free"))?.len();
        let taken = names(&size.directory("taken"))?.len();
        pools.push(Pool { size, free, taken });
    }
    pools.sort_unstable_by(|one, other| one.size.cmp(&other.size));
    Ok(pools)
}

/// Removes the pool of `size` and its free cgroups. Returns the number of cgroups in use, which exist until their
/// containers are deleted.
///
/// # Errors
/// [`Error::NoPool`]; failing system calls.
pub fn drain(hierarchies: &Hierarchies, size: &Size) -> Result<usize, Error> {
    let _lock = lock(size).map_err(|error| no_pool(error, size))?;
    for name in names(&size.directory("free")).map_err(|error| no_pool(error, size))? {
        // First moves the cgroup to `taken/`, so that no start can take it.
        let from = format!("{}/{name}", size.directory("free"));
        let token = format!("{}/{name}", size.directory("taken"));
        match rename(from.as_str(), token.as_str()) {
            Ok(()) => {
                Cgroup::delete(&size.location(hierarchies, &name))?;
                unlink(token.as_str()).context("unlink", token)?;
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(sys::Error::new("rename", from, errno).into()),
        }
    }
    clear_lost(hierarchies, size)?;
    let left = names(&size.directory("taken"))?;
    for name in &left {
        let _ = unlink(format!("{}/{name}", size.directory("taken")));
    }
    for directory in
        [size.directory("free"), size.directory("taken"), format!("{POOLS}/{}", size.name)]
    {
        rmdir(directory.as_str()).context("rmdir", directory)?;
    }
    let parents = [format!("{PARENT}/{}", size.name), PARENT.to_string()];
    for location in parents.iter().map(|path| Location::at(hierarchies, path)) {
        let legacy = location.legacy.iter().map(|legacy| legacy.place.directory());
        let all = legacy.chain(location.unified.iter().map(|place| place.directory()));
        // This fails if there are other pools, or cgroups in use.
        all.for_each(|directory| _ = rmdir(directory));
    }
    let _ = rmdir(POOLS);
    Ok(left.len())
}

/// Locks the pool against other processes that fill or remove it. The lock is held until the returned descriptor is
/// closed.
fn lock(size: &Size) -> Result<OwnedFd, Error> {
    let directory = size.directory("");
    let fd = sys::fs::open_dir(CWD, directory.as_str()).context("open", &directory)?;
    sys::wait::lock(&fd, FlockOperation::NonBlockingLockExclusive, PATIENCE)
        .context("lock", directory)?;
    Ok(fd)
}

/// Converts ENOENT to [`Error::NoPool`].
fn no_pool(error: Error, size: &Size) -> Error {
    match error {
        Error::System(error) if error.errno == Errno::NOENT => Error::NoPool(size.name.clone()),
        error => error,
    }
}

/// Creates one free cgroup.
fn add(hierarchies: &Hierarchies, size: &Size) -> Result<(), Error> {
    let name = unique();
    let memory = Memory { limit: Some(size.bytes), ..Memory::default() };
    let resources = Resources { memory: Some(memory), ..Resources::default() };
    let token = format!("{}/{name}", size.directory("taken"));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    // The file is created before the cgroup, so that a cgroup without a file cannot exist.
    openat(CWD, token.as_str(), flags, Mode::RUSR).context("create", &token)?;
    let made = Cgroup::create(&size.location(hierarchies, &name), &resources, None);
    let waits = made.and_then(|mut cgroup| {
        let free = format!("{}/{name}", size.directory("free"));
        rename(token.as_str(), free.as_str()).context("rename", &token)?;
        cgroup.keep();
        Ok(())
    });
    if waits.is_err() {
        let _ = unlink(token);
    }
    waits
}

/// Removes cgroups that were left behind by killed starts.
fn clear_lost(hierarchies: &Hierarchies, size: &Size) -> Result<(), Error> {
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    for name in names(&size.directory("taken"))? {
        let token = format!("{}/{name}", size.directory("taken"));
        let Ok(stat) = statat(CWD, token.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if now.saturating_sub(stat.st_ctime) < LOST_AFTER {
            continue;
        }
        let location = size.location(hierarchies, &name);
        let inside =
            match Cgroup::open(&location).and_then(|cgroup| processes::all(cgroup.primary()?)) {
                Ok(pids) => pids.len(),
                Err(error) if error.is_gone() => 0,
                Err(error) => return Err(error),
            };
        if inside == 0 {
            Cgroup::delete(&location)?;
            let _ = unlink(token);
        }
    }
    Ok(())
}

/// Returns the size of the pool to which a cgroup belongs, and the cgroup's name in that pool.
fn pooled(location: &Location) -> Option<(Size, &str)> {
    let legacy = location.legacy.first().map(|legacy| &legacy.place);
    let place = legacy.or(location.unified.as_ref())?;
    let (size, name) = place.path().strip_prefix(PARENT)?.strip_prefix('/')?.split_once('/')?;
    Some((Size::parse(size).ok()?, name))
}

/// Returns a name that no cgroup has had since boot. Names must not be reused, because the record of a deleted
/// container may still contain its cgroup's name.
fn unique() -> String {
    let now = clock_gettime(ClockId::Boottime);
    let pid = rustix::process::getpid().as_raw_nonzero();
    format!("{}-{:09}-{pid}", now.tv_sec, now.tv_nsec)
}

/// Returns the name of a directory entry, or `None` for `.`, `..` and names that are not UTF-8.
fn name_of(entry: &DirEntry) -> Option<&str> {
    entry.file_name().to_str().ok().filter(|name| !matches!(*name, "." | ".."))
}

fn names(directory: &str) -> Result<Vec<String>, Error> {
    let fd = sys::fs::open_dir(CWD, directory).context("open", directory)?;
    let mut names = Vec::new();
    for entry in Dir::new(fd).context("read", directory)? {
        let entry = entry.context("read", directory)?;
        names.extend(name_of(&entry).map(ToString::to_string));
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(Size::parse("256M").unwrap().bytes(), 256 << 20);
        assert_eq!(Size::parse("1G").unwrap().name(), "1G");
        for bad in ["", "M", "256", "0M", "-1M", "01M", "../1M", "1 M", "9999999999999G", "1m"] {
            assert!(Size::parse(bad).is_err(), "{bad}");
        }
        assert!(Size::parse("512K").unwrap() < Size::parse("1M").unwrap());
    }

    #[test]
    fn whose_cgroup_it_is() {
        let hierarchies =
            Hierarchies { root: "/cg".into(), unified: Some("/cg".into()), legacy: Vec::new() };
        let size = Size::parse("128M").unwrap();
        assert_eq!(pooled(&size.location(&hierarchies, "x")), Some((size, "x")));
        assert_eq!(pooled(&Location::at(&hierarchies, "/dayfly-tiers")), None);
        assert_eq!(pooled(&Location::at(&hierarchies, "/dayfly-tiersx/128M/x")), None);
        assert_eq!(pooled(&Location::at(&hierarchies, "/other/128M/x")), None);
        assert_ne!(unique(), unique());
    }
}
