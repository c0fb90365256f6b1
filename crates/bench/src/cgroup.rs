//! The one cgroup below which every container of an experiment lives.

use crate::Error;
use crate::view::View;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long processes may take to go once killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The parent cgroup; emptied and removed when dropped.
#[derive(Debug)]
pub struct Parent {
    /// Its path from the root of each hierarchy, with a slash before it.
    pub path: String,
    /// The directories at which it is, or will be when a runtime makes it.
    directories: Vec<PathBuf>,
}

impl Parent {
    /// Makes the cgroup `name` in cgroup2, if that is all there is; in v1 hierarchies the runtimes
    /// make it, each where it wants one.
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

    /// Kills what is in the child `name` and removes it, in every hierarchy.
    pub fn clear(&self, name: &str) {
        for directory in &self.directories {
            clear(&directory.join(name));
        }
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        for directory in &self.directories {
            clear(directory);
        }
    }
}

/// The mounted hierarchies.
fn hierarchies(view: View) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    if view == View::V2 {
        return vec![top.to_owned()];
    }
    let entries = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("cgroup.procs").exists()).collect()
}

/// Kills and removes a cgroup with all below it. What can't be removed is said on stderr.
fn clear(directory: &Path) {
    let started = Instant::now();
    while directory.exists() {
        let result = kill(directory).and_then(|()| remove(directory));
        match result {
            Err(error) if started.elapsed() > PATIENCE => {
                eprintln!("dayfly-bench: cgroup {} stays: {error}", directory.display());
                return;
            }
            Err(_) => sleep(Duration::from_millis(2)),
            Ok(()) => {}
        }
    }
}

/// Kills every process in the cgroup and below: by cgroup.kill (Linux 5.14), else one by one.
fn kill(directory: &Path) -> std::io::Result<()> {
    if fs::write(directory.join("cgroup.kill"), "1").is_ok() {
        return Ok(());
    }
    for child in children(directory)? {
        kill(&child)?;
    }
    // A v1 freezer holds even what is killed.
    let _ = fs::write(directory.join("freezer.state"), "THAWED");
    for line in fs::read_to_string(directory.join("cgroup.procs"))?.lines() {
        let pid = line.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
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
