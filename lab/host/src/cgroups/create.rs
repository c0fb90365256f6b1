//! `create`: creates groups, and sets their owners and permissions.

use super::group::{Tree, entries};
use super::journal::{Belonging, Change, Journal};
use crate::cgroups::options::{Create, Ownership};
use report::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files through which tasks are moved; `-t` and `-s` set their owner and mode.
const TASK_FILES: [&str; 3] = ["tasks", "cgroup.procs", "cgroup.threads"];

/// Creates groups: all of them, or none.
///
/// # Errors
/// Unknown controllers and users; failing system calls.
pub fn create(options: &Create) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let mut journal = Journal::begin()?;
    for group in options.groups.iter().chain(&options.more) {
        journal.make(&tree, group)?;
        for directory in tree.existing(group)? {
            for change in changes(&directory, &options.ownership)? {
                journal.change(&change)?;
            }
        }
    }
    journal.commit();
    Ok(())
}

/// Returns the changes that a group's directory needs for the wanted owners and permissions. As with cgcreate, the
/// admin owns the directory and its files, except that the task owner owns the files that move tasks: `tasks` on v1,
/// and those of [`TASK_FILES`] that exist on v2.
///
/// # Errors
/// Unknown users; failing system calls.
pub fn changes(directory: &Path, wanted: &Ownership) -> Result<Vec<Change>, Error> {
    let admin = wanted.admin.clone().unwrap_or_default().ids()?;
    let task = wanted.task.clone().unwrap_or_default().ids()?;
    let is_v1 = directory.join("tasks").exists();
    let task_files = if is_v1 { &TASK_FILES[..1] } else { &TASK_FILES };
    let mut changes = Vec::new();
    for path in std::iter::once(directory.to_owned()).chain(files(directory)) {
        let data = fs::metadata(&path).map_err(Error::of("stat", &path))?;
        let is_task_file = task_files.iter().any(|file| path.ends_with(file));
        let (user, group) =
            if is_task_file { (task.0.or(admin.0), task.1.or(admin.1)) } else { admin };
        let differs = |wanted: Option<u32>, present| wanted.is_some_and(|id| id != present);
        if differs(user, data.uid()) || differs(group, data.gid()) {
            changes.push(Change { path: path.clone(), to: Belonging::Owner(user, group) });
        }
        let present = data.mode() & 0o7777;
        let mode = match (data.is_dir(), is_task_file) {
            (true, _) => wanted.directory_mode,
            (_, true) => wanted.task_mode.or_else(|| narrowed(wanted.file_mode, present)),
            _ => narrowed(wanted.file_mode, present),
        };
        if let Some(mode) = mode.filter(|mode| *mode != present) {
            changes.push(Change { path, to: Belonging::Mode(mode) });
        }
    }
    Ok(changes)
}

/// Limits a mode to the permissions that the kernel gives the file's owner.
fn narrowed(wanted: Option<u32>, present: u32) -> Option<u32> {
    let owner = present >> 6 & 0o7;
    wanted.map(|mode| mode & (owner << 6 | owner << 3 | owner))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let names = entries(directory, fs::FileType::is_file);
    names.into_iter().map(|name| directory.join(name)).collect()
}
