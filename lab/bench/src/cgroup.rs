//! The parent cgroup of all containers of an experiment.

use crate::view::View;
use crate::{Error, process};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time after which a killed process that still exists counts as stuck, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(20);

/// The parent cgroup; emptied and removed when dropped.
#[derive(Debug)]
pub struct Parent {
    /// The path of the cgroup from the root of each hierarchy, with a leading slash.
    pub path: String,
    /// The directories of the cgroup, which may not exist yet: runtimes create them on v1.
    directories: Vec<PathBuf>,
}

impl Parent {
    /// Creates the cgroup `name` if this process's view is v2. In the other views, the runtimes create the cgroup as
    /// needed.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn make(name: &str) -> Result<Self, Error> {
        let view = View::current();
        let directories = hierarchies(view).into_iter().map(|top| top.join(name)).collect();
        let parent = Self { path: format!("/{name}"), directories };
        if view == View::V2 {
            for directory in &parent.directories {
                fs::create_dir(directory).map_err(Error::at("make cgroup", directory))?;
            }
        }
        Ok(parent)
    }

    /// Returns the parent cgroup `name` that an earlier experiment has left, if it exists in any hierarchy.
    pub fn left(name: &str) -> Option<Self> {
        let directories: Vec<PathBuf> =
            tops().into_iter().map(|top| top.join(name)).filter(|left| left.exists()).collect();
        (!directories.is_empty()).then(|| Self { path: format!("/{name}"), directories })
    }

    /// Creates the child cgroup `name` in one hierarchy, and returns its directory. In the v1 and hybrid views, a v1
    /// hierarchy is preferred that accepts processes without further settings.
    ///
    /// # Errors
    /// No cgroup hierarchy is mounted; those of mkdir(2).
    pub fn make_child(&self, name: &str) -> Result<PathBuf, Error> {
        let fits = |directory: &&PathBuf| {
            let top = directory.parent().and_then(Path::file_name).unwrap_or_default();
            ["freezer", "pids", "memory", "devices"].iter().any(|fit| top == *fit)
        };
        let place = self.directories.iter().find(fits).or_else(|| self.directories.first());
        let place = place.ok_or_else(|| unfit!("no cgroup hierarchy is mounted"))?;
        let child = place.join(name);
        fs::create_dir_all(&child).map_err(Error::at("make cgroup", &child))?;
        Ok(child)
    }

    /// Returns the number of hierarchies in which the parent exists.
    pub fn count(&self) -> usize {
        self.directories.iter().filter(|directory| directory.exists()).count()
    }

    /// Kills the processes in the child cgroup `name` and removes that cgroup, in every hierarchy.
    pub fn clear(&self, name: &str) {
        for directory in &self.directories {
            tell(clear(&directory.join(name)));
        }
    }

    /// Does the same as [`Self::remove`], but prints a failure to stderr instead of returning it.
    pub fn clear_all(&self) {
        tell(self.remove());
    }

    /// Kills all processes in the parent cgroup and removes that cgroup, in every hierarchy.
    ///
    /// # Errors
    /// The first directory that can't be removed.
    pub fn remove(&self) -> Result<(), Error> {
        // All processes are killed before any cgroup is removed: a process that is in the cgroup of only one hierarchy
        // could create the cgroup again in another hierarchy.
        let deadline = Instant::now() + PATIENCE;
        for directory in &self.directories {
            let _ = kill(directory, deadline);
        }
        let results: Vec<_> = self.directories.iter().map(|directory| clear(directory)).collect();
        results.into_iter().collect()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.clear_all();
    }
}

fn tell(result: Result<(), Error>) {
    if let Err(error) = result {
        eprintln!("warning: {error}");
    }
}

/// Returns the mount points of all hierarchies in this process's view.
pub fn tops() -> Vec<PathBuf> {
    hierarchies(View::current())
}

/// Returns whether `controller` is available in this process's view, so that it can limit containers.
pub fn can_limit(controller: &str) -> bool {
    let top = Path::new("/sys/fs/cgroup");
    if View::current() == View::V2 {
        let all = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
        return all.split_whitespace().any(|name| name == controller);
    }
    // A controller that is mounted together with others has a symbolic link with its own name.
    top.join(controller).join("cgroup.procs").exists()
}

/// Returns the mount points of all hierarchies in a view.
fn hierarchies(view: View) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    if view == View::V2 {
        return vec![top.to_owned()];
    }
    let entries = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("cgroup.procs").exists()).collect()
}

/// Kills and removes a cgroup with its descendants. A missing directory is no error.
fn clear(directory: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match kill(directory, deadline).and_then(|()| remove(directory)) {
            Err(_) if !directory.exists() => return Ok(()),
            // A process was forked between the kill and the removal.
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {}
            result => return result.map_err(Error::at("remove cgroup", directory)),
        }
    }
}

/// Kills every process in the cgroup and below, and waits until they have ended.
fn kill(directory: &Path, deadline: Instant) -> io::Result<()> {
    for child in children(directory)? {
        kill(&child, deadline)?;
    }
    // A frozen v1 cgroup delays even SIGKILL.
    let _ = fs::write(directory.join("freezer.state"), "THAWED");
    // cgroup.kill (Linux 5.14) also kills processes that are being forked.
    let _ = fs::write(directory.join("cgroup.kill"), "1");
    let procs = fs::read_to_string(directory.join("cgroup.procs"))?;
    let pids = procs.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw));
    let pidfds: Vec<_> = pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
    for pidfd in &pidfds {
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
    }
    for pidfd in &pidfds {
        let rest = deadline.saturating_duration_since(Instant::now());
        let mut files = [PollFd::new(pidfd, PollFlags::IN)];
        if matches!(process::ready(&mut files, Instant::now(), rest), Ok(false)) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn remove(directory: &Path) -> std::io::Result<()> {
    for child in children(directory)? {
        remove(&child)?;
    }
    fs::remove_dir(directory)
}

fn children(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut children = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            children.push(entry.path());
        }
    }
    Ok(children)
}
