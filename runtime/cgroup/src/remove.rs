//! Removes a cgroup, with the processes and cgroups that it still contains.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, rmdir, unlinkat};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::directory::Directory;
use crate::systemd::Instance;
use crate::wait::{self, Deadline};
use crate::{Cgroup, Error, Location, Place, processes, scope, tree};

/// The time that `remove_empty` gives already killed processes to exit.
const GRACE: Duration = Duration::from_millis(100);

const SIGKILL: i32 = 9;

impl Cgroup {
    /// Kills all processes in the cgroup at `location` and in all cgroups below it, and removes these cgroups. Missing
    /// directories are ignored. If the cgroup contains neither processes nor cgroups, the removal needs one rmdir(2)
    /// per hierarchy.
    ///
    /// # Errors
    /// [`Error::Busy`] if processes still exist ten seconds after SIGKILL; [`Error::Systemd`] if the unit cannot be
    /// stopped; failing system calls.
    pub fn delete(location: &Location) -> Result<(), Error> {
        let Some(unit) = &location.unit else { return Self::delete_directories(location) };
        if scope::leave(location, unit)? {
            return Ok(());
        }
        // systemd removes the scope's directories, except those of hierarchies that it does not know.
        let stopped = scope::stop(location, unit);
        Self::delete_directories(location).and(stopped)
    }

    /// Removes the cgroup if it contains neither processes nor child cgroups. Waits a short time for killed processes
    /// to exit. The cgroup's parents are kept. A scope is removed by systemd.
    ///
    /// # Errors
    /// Failing system calls. If the cgroup is not empty, it is kept, without an error.
    pub fn remove_empty(location: &Location) -> Result<(), Error> {
        let unit = location.unified.as_ref().and_then(|place| place.path().rsplit('/').next());
        if unit.is_some_and(|name| scope::is_loaded(&Instance::System, name)) {
            return Ok(());
        }
        let all: Vec<_> = location.places().filter(|place| !place.path().is_empty()).collect();
        let deadline = Deadline::after(GRACE);
        loop {
            let busy = busy_of(&all.iter().map(|place| place.directory()).collect::<Vec<_>>())?;
            if busy.is_empty() || deadline.left().is_none() {
                return unit.map_or(Ok(()), scope::stop_removed);
            }
            wait::moment(Duration::from_millis(1));
        }
    }

    /// Kills the processes in the cgroup and in all cgroups below it, and waits until they have exited. Keeps the
    /// cgroups. If there are v1 hierarchies, kills only the processes in the hierarchy that [`Cgroup::create`] requires
    /// to be empty: in the others, there may be processes of other programs.
    ///
    /// # Errors
    /// [`Error::Busy`] if processes still exist ten seconds after SIGKILL; failing system calls.
    pub fn end_processes(&self) -> Result<(), Error> {
        let primary = self.primary()?;
        let deadline = Deadline::after(wait::DYING);
        loop {
            match self.only_unified() {
                Some(_) => self.kill_all(SIGKILL)?,
                None => processes::send(&processes::all(primary)?, SIGKILL)?,
            }
            // A process that the v1 freezer has frozen ends only when it is thawed.
            let _ = self.thaw_all();
            let left = processes::all(primary)?.len();
            if left == 0 {
                return Ok(());
            }
            if deadline.left().is_none() {
                return Err(Error::Busy { directory: primary.path().to_string(), processes: left });
            }
            wait::moment(Duration::from_millis(1));
        }
    }

    /// Returns the open directory whose path is `path`, if there is one.
    fn opened(&self, path: &str) -> Option<&Directory> {
        self.directories().find(|directory| directory.path() == path)
    }

    /// Removes what is left of a cgroup, with its processes. For a scope, its unit must have ended.
    ///
    /// # Errors
    /// Those of [`Cgroup::delete`].
    pub fn delete_directories(location: &Location) -> Result<(), Error> {
        let all: Vec<_> = location.places().map(Place::directory).collect();
        let busy = busy_of(&all)?;
        if busy.is_empty() {
            return Ok(());
        }
        force(&Self::open_rest(location)?, &busy)
    }
}

/// Removes the directories in `paths`, which belong to `cgroup`.
///
/// # Errors
/// Those of [`Cgroup::delete`].
pub(crate) fn remove(cgroup: &Cgroup, paths: &[String]) -> Result<(), Error> {
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let busy = busy_of(&paths)?;
    if busy.is_empty() { Ok(()) } else { force(cgroup, &busy) }
}

/// Removes those directories that are empty, and returns the paths of the others. An error for one directory does not
/// keep the others: all are tried before the first error is returned.
fn busy_of<'a>(paths: &[&'a str]) -> Result<Vec<&'a str>, Error> {
    let mut busy = Vec::new();
    let mut failed = None;
    for path in paths {
        match rmdir(*path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::BUSY | Errno::NOTEMPTY) => busy.push(*path),
            // On a read-only mount, rmdir(2) fails with EROFS even for a missing directory.
            Err(_) if Directory::open(path).is_err_and(|error| error.errno == Errno::NOENT) => {}
            Err(errno) => {
                failed.get_or_insert_with(|| sys::Error::new("rmdir", *path, errno));
            }
        }
    }
    failed.map_or(Ok(busy), |error| Err(error.into()))
}

/// Kills processes, waits for their exit and removes directories, until all of `paths` are removed or the time limit
/// has passed.
fn force(cgroup: &Cgroup, paths: &[&str]) -> Result<(), Error> {
    let deadline = Deadline::after(wait::DYING);
    let mut paths = paths.to_vec();
    loop {
        match cgroup.kill_all(SIGKILL) {
            Err(error) if !error.is_gone() => return Err(error),
            _ => {}
        }
        let mut left = Vec::new();
        for path in paths {
            let opened;
            let own = match cgroup.opened(path) {
                Some(own) => own,
                None => match Directory::open(path) {
                    Err(error) if error.errno == Errno::NOENT => continue,
                    result => {
                        opened = result?;
                        &opened
                    }
                },
            };
            match empty(own, deadline) {
                // Another process has removed this cgroup. A new cgroup with the same name must not be removed. If the
                // cgroup itself is still there, one below it has disappeared.
                Err(error) if error.is_gone() && !own.is_at_its_path() => {}
                Err(error) if !error.is_gone() => return Err(error),
                _ => left.push(path),
            }
        }
        paths = busy_of(&left)?;
        let Some(path) = paths.first() else { return Ok(()) };
        if deadline.left().is_none() {
            let left = Directory::open(path).map_err(Error::from).and_then(|d| processes::all(&d));
            let processes = left.map_or(0, |pids| pids.len());
            return Err(Error::Busy { directory: path.to_string(), processes });
        }
        // A process has just joined the cgroup, or is still exiting.
        wait::moment(Duration::from_millis(1));
    }
}

/// Waits until the killed processes of a cgroup have exited, and removes the cgroups below it.
fn empty(directory: &Directory, deadline: Deadline) -> Result<(), Error> {
    if directory.has("cgroup.events") {
        wait::event(directory, "populated", 0, deadline)?;
    } else {
        for pid in processes::all(directory)? {
            // cgroup v1 does not report that a cgroup is empty, so the exit of each process is awaited through a pidfd.
            // As on v2, a zombie counts as exited.
            if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
                wait::ready(&mut [PollFd::new(&process, PollFlags::IN)], deadline)?;
            }
        }
    }
    let removed = tree::each_below(directory.fd(), |parent, name| {
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            // The caller repeats the removal.
            Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(()),
            result => result,
        }
    });
    removed.map_err(|errno| sys::Error::new("rmdir below", directory.path(), errno).into())
}
