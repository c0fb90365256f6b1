//! Changes that are undone unless all of them succeed.

use super::group::{Group, Tree};
use report::Error;
use report::interrupt::{self, Second};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// A value to be written to a file of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The file.
    pub file: PathBuf,
    /// The value.
    pub value: String,
    /// The cgroup plan's line that sets the value, `FILE:LINE`; empty if there is none.
    pub source: String,
}

impl Write {
    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the object that the write sets: a file, or the line of a device or resource in that
    /// file. `None` for files in which each write adds to the earlier ones.
    pub fn what(&self) -> Option<(&Path, Vec<&str>)> {
        let name = self.name();
        if name.starts_with("devices.") {
            return None;
        }
        let lines = ["io.", "blkio.", "rdma.", "misc.", "net_prio.ifpriomap"];
        let mut words = self.value.split_whitespace();
        let part = match lines.iter().any(|start| name.starts_with(start)) {
            // The line is identified by the device, and the names of the limits.
            true if self.value.contains(' ') => {
                let device = words.next();
                let limits = words.map(|word| word.split_once('=').map_or("", |(limit, _)| limit));
                device.into_iter().chain(limits).collect()
            }
            _ => Vec::new(),
        };
        Some((&self.file, part))
    }
}

/// A change of the owner or the permissions of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file or directory.
    pub path: PathBuf,
    /// What it gets.
    pub to: Belonging,
}

/// An owner, or permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belonging {
    /// User and group, each unless it stays.
    Owner(Option<u32>, Option<u32>),
    /// The mode.
    Mode(u32),
}

/// The changes made so far. Undoes all of them, latest first, when dropped without [`Journal::commit`].
#[derive(Default)]
pub struct Journal {
    done: Vec<Done>,
}

/// A change that was made.
struct Done {
    /// The object, and what it was before, for the error if it can't be undone.
    what: String,
    /// Undoes the change, or returns false.
    undo: Box<dyn Fn() -> bool>,
}

impl Done {
    fn new(what: String, undo: impl Fn() -> bool + 'static) -> Self {
        Self { what, undo: Box::new(undo) }
    }
}

impl Journal {
    /// Starts a journal. From now on, SIGINT, SIGTERM and SIGHUP don't terminate the program. Instead, the next change
    /// fails, so that everything is undone.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn begin() -> Result<Self, Error> {
        interrupt::catch(Second::Waits)?;
        Ok(Self::default())
    }

    /// Creates the directories of a group; see [`Tree::make`].
    ///
    /// # Errors
    /// Those of [`Tree::make`].
    pub fn make(&mut self, tree: &Tree, group: &Group) -> Result<Vec<PathBuf>, Error> {
        go_on()?;
        let made = tree.make(group)?;
        self.done.extend(made.iter().cloned().map(|made| {
            let what = format!("the group {}", made.display());
            Done::new(what, move || fs::remove_dir(&made).is_ok())
        }));
        Ok(made)
    }

    /// Writes a value with one write(2).
    ///
    /// # Errors
    /// Failing system calls.
    pub fn write(&mut self, file: &Path, value: &str) -> Result<(), Error> {
        go_on()?;
        let before = undo(file, value);
        put(file, value)?;
        self.done.extend(before);
        Ok(())
    }

    /// Changes the owner or the permissions of a file or directory.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn change(&mut self, Change { path, to }: &Change) -> Result<(), Error> {
        go_on()?;
        let present = fs::metadata(path).map_err(Error::of("stat", path))?;
        let set = |path: &Path, to| match to {
            Belonging::Owner(user, group) => chown(path, user, group),
            Belonging::Mode(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        };
        let (user, group, mode) = (present.uid(), present.gid(), present.mode() & 0o7777);
        let (op, before, was) = match to {
            Belonging::Owner(..) => {
                let before = Belonging::Owner(Some(user), Some(group));
                ("chown", before, format!("belonged to {user}:{group}"))
            }
            Belonging::Mode(_) => ("chmod", Belonging::Mode(mode), format!("had mode {mode:04o}")),
        };
        set(path, *to).map_err(Error::of(op, path))?;
        let (what, path) = (format!("{}, which {was}", path.display()), path.clone());
        self.done.push(Done::new(what, move || set(&path, before).is_ok()));
        Ok(())
    }

    /// Writes all values in an order that the kernel accepts, and keeps all changes. A write may fail because it depends on another write: a
    /// child's CPUs depend on the parent's CPUs, and a memory limit on the limit of memory and swap together. Such a
    /// write is repeated after others have succeeded.
    ///
    /// # Errors
    /// The kernel's error for the first value that it finally refuses.
    pub fn finish(mut self, writes: Vec<Write>) -> Result<(), Error> {
        let mut left = writes;
        loop {
            let before = left.len();
            let mut refused = Vec::new();
            let mut first = None;
            for write in left {
                if let Err(error) = self.write(&write.file, &write.value) {
                    first.get_or_insert_with(|| explain(error, &write));
                    refused.push(write);
                }
            }
            match first {
                None => {
                    self.commit();
                    return Ok(());
                }
                Some(error) if refused.len() == before => return Err(error),
                Some(_) => left = refused,
            }
        }
    }

    /// Keeps all changes.
    pub fn commit(mut self) {
        self.done.clear();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A round may undo only a single change, if all other changes depend on that change. So there are as many
        // rounds as changes.
        for _ in 0..self.done.len() {
            let before = self.done.len();
            let left: Vec<Done> = std::mem::take(&mut self.done);
            for done in left.into_iter().rev() {
                if !(done.undo)() {
                    self.done.insert(0, done);
                }
            }
            if self.done.is_empty() || self.done.len() == before {
                break;
            }
        }
        for done in self.done.drain(..) {
            let _ = writeln!(std::io::stderr(), "dayfly: could not undo: {}", done.what);
        }
    }
}

/// Returns an error if a signal has arrived.
fn go_on() -> Result<(), Error> {
    interrupt::check().map_err(|_| refused!("interrupted: nothing is changed"))
}

/// Writes `value` to an existing file with one write(2).
fn put(file: &Path, value: &str) -> Result<(), Error> {
    // The kernel ignores a write of zero bytes.
    let bytes = if value.is_empty() { b"\n" } else { value.as_bytes() };
    let opened = fs::OpenOptions::new().write(true).open(file).map_err(Error::of("open", file))?;
    let object = || format!("{value:?} to {}", file.display());
    (&opened).write_all(bytes).map_err(|cause| Error::system("write", object(), cause))
}

/// Returns the change that undoes a write of `value` to `file`, or `None` if the write can't be undone.
fn undo(file: &Path, value: &str) -> Option<Done> {
    let file = file.to_owned();
    if matches!(file.file_name()?.to_str()?, "devices.allow" | "devices.deny") {
        let directory = file.parent()?.to_owned();
        let list = directory.join("devices.list");
        let before = fs::read_to_string(&list).ok()?;
        let what = format!("{}, which was {before:?}", list.display());
        let undo = move || put_devices(&directory, &before) || !directory.exists();
        return Some(Done::new(what, undo));
    }
    let before = before(&file, value, &fs::read_to_string(&file).ok()?)?;
    let what = format!("{}, which was {before:?}", file.display());
    Some(Done::new(what, move || put(&file, &before).is_ok() || !file.exists()))
}

/// Returns the value that must be written to restore `present` after a write of `value`, or `None` if it can't be
/// restored.
fn before(file: &Path, value: &str, present: &str) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    if matches!(name, "cgroup.procs" | "cgroup.threads" | "tasks" | "cgroup.subtree_control") {
        return None;
    }
    if name == "memory.oom_control" {
        let disabled = present.lines().find_map(|line| line.strip_prefix("oom_kill_disable "));
        return disabled.map(str::to_owned);
    }
    let Some((device, _)) = value.split_once(' ').filter(|(device, _)| device.contains(':')) else {
        return Some(present.trim_end().to_owned());
    };
    let line = present.lines().find(|line| line.split(' ').next() == Some(device));
    Some(match line {
        Some(line) => line.to_owned(),
        None if name == "io.max" => format!("{device} rbps=max wbps=max riops=max wiops=max"),
        None => format!("{device} 0"),
    })
}

/// Restores a group's devices from an earlier content of its devices.list.
fn put_devices(directory: &Path, list: &str) -> bool {
    let (deny, allow) = (directory.join("devices.deny"), directory.join("devices.allow"));
    // In devices.list, a single line that begins with `a` means that all devices are allowed.
    let first = if list.starts_with('a') { Ok(()) } else { put(&deny, "a") };
    first.is_ok() && list.lines().all(|line| put(&allow, line).is_ok())
}

/// Adds advice to the kernel's error.
fn explain(error: Error, write: &Write) -> Error {
    use rustix::io::Errno;
    let name = write.name();
    let is_limit = super::key::is_size(name);
    let advice = match error.errno() {
        Some(Errno::BUSY) if is_limit => Some("the group uses more, and it can't be reclaimed"),
        Some(Errno::BUSY) if name.starts_with("cpuset.") => {
            Some("a group below this group, or a task in it, uses a resource that would be removed")
        }
        Some(Errno::ACCESS | Errno::INVAL | Errno::RANGE) if name.starts_with("cpuset.") => Some(
            "a group cannot have more than its parent, or exclusive resources of another group",
        ),
        Some(Errno::INVAL) if name.contains("memsw") || name.ends_with(".limit_in_bytes") => {
            Some("the limit of memory and swap can't be below that of memory")
        }
        Some(Errno::OPNOTSUPP | Errno::INVAL) if name == "cgroup.procs" => {
            Some("a group that delegates controllers cannot contain processes")
        }
        _ => None,
    };
    let error = error.advised(advice);
    if write.source.is_empty() { error } else { error.sourced(&write.source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_a_value_back() {
        let undo = |file: &str, value, present| before(Path::new(file), value, present);
        assert_eq!(undo("/x/memory.max", "5", "max\n").as_deref(), Some("max"));
        assert_eq!(undo("/x/cpuset.cpus", "0", "\n").as_deref(), Some(""));
        let io = "8:0 rbps=5 wbps=max riops=max wiops=max\n";
        assert_eq!(undo("/x/io.max", "8:0 rbps=1", io).as_deref(), Some(io.trim_end()));
        assert!(undo("/x/io.max", "8:16 rbps=1", io).unwrap().starts_with("8:16 rbps=max"));
        let throttle = "/x/blkio.throttle.read_bps_device";
        assert_eq!(undo(throttle, "8:0 5", "").as_deref(), Some("8:0 0"));
        assert_eq!(undo("/x/cgroup.procs", "7", "1\n"), None);
        let oom = "oom_kill_disable 0\nunder_oom 0\n";
        assert_eq!(undo("/x/memory.oom_control", "1", oom).as_deref(), Some("0"));
    }
}
