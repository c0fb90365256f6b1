//! Removes directories, cgroups and mounts that killed experiments have left on the host.
//!
//! A test stand has one name, used for its directory of bundles, its state directory, and the parent of its cgroups in
//! each hierarchy. Both directories are locked while the experiment runs, and marked once they are locked; the state
//! directory is made first and removed last. A directory with such a name and mark, and without a live owner, can be
//! removed. A name alone is not enough: a directory without the mark stays.

use crate::base::*;
use crate::cgroup::Parent;
use crate::place::{self, PREFIX};
use host::facts::mounts;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, open, openat, statat,
};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::geteuid;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// The file that marks a test stand's directory.
const MARK: &str = ".dayfly-bench-stand";

/// Returns whether a name is that of a test stand: the prefix, a process id, and for some stands a suffix.
fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let pid = rest.strip_suffix("-pod").unwrap_or(rest);
    !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())
}

/// Locks a stand's directory, and marks the directory once it is locked. The lock is held until the descriptor is
/// closed.
///
/// # Errors
/// Those of open(2) and flock(2).
pub(crate) fn own(directory: &Path) -> Result<OwnedFd, Error> {
    let lock = open_directory(directory).map_err(Error::errno("open", directory))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(Error::errno("lock", directory))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(&lock, MARK, flags, Mode::RUSR).map_err(Error::errno("mark", directory))?;
    Ok(lock)
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Opens a directory that a stand of this user has made; `None` for anything else.
fn marked(path: &Path) -> Option<OwnedFd> {
    let directory = open_directory(path).ok()?;
    let user = geteuid().as_raw();
    let mark = statat(&directory, MARK, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(mark.st_mode) == FileType::RegularFile;
    let is_own = mark.st_uid == user && fstat(&directory).is_ok_and(|stat| stat.st_uid == user);
    (is_file && is_own).then_some(directory)
}

/// Returns those of a stand's directories that have no owner, with their locks; an empty list if any of the directories
/// has a live owner.
fn dead<const N: usize>(places: [PathBuf; N]) -> Vec<(PathBuf, OwnedFd)> {
    let made = places.into_iter().filter_map(|place| marked(&place).map(|lock| (place, lock)));
    let made: Vec<(PathBuf, OwnedFd)> = made.collect();
    let is_free = |lock| flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    if made.iter().all(|(_, lock)| is_free(lock)) { made } else { Vec::new() }
}

/// Removes a directory with its content. First unmounts everything that is mounted below it; returns the number of
/// these mounts. A missing directory is no error.
///
/// # Errors
/// The directory, or a part of it, can't be removed.
pub(crate) fn remove(directory: &Path) -> Result<usize, Error> {
    let mut mounts = below(directory);
    // The topmost mounts are unmounted first.
    mounts.reverse();
    for mount in &mounts {
        let _ = unmount(mount, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    match empty(directory).and_then(|()| fs::remove_dir_all(directory)) {
        Err(error) if directory.exists() => Err(Error::at("remove", directory)(error)),
        _ => Ok(mounts.len()),
    }
}

/// Removes a directory's content except its mark, so that anything that can't be removed now can be found again.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != MARK {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the mounts at and below a directory, in the order of the mount table.
fn below(directory: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = mounts(&text).into_iter().map(|mount| PathBuf::from(mount.point));
    places.filter(|place| place.starts_with(directory)).collect()
}

/// Removes everything that killed experiments have left behind. Returns a line for each removed experiment, or why it
/// can't be removed.
///
/// # Errors
/// A signal arrived.
pub fn clear() -> Result<Vec<Result<String, Error>>, Error> {
    let mut names = BTreeSet::new();
    for top in [place::directory(""), place::state("")] {
        let entries = fs::read_dir(top).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.extend(found.filter(|name| is_name(name)));
    }
    let mut cleared = Vec::new();
    for name in names {
        interrupt::check()?;
        cleared.extend(clear_one(&name).transpose());
    }
    Ok(cleared)
}

/// Removes what the experiment of this name has left, if it has been killed.
fn clear_one(name: &str) -> Result<Option<String>, Error> {
    let state = place::state(name);
    let dead = dead([place::directory(name), state.clone()]);
    // A runtime that outlives its experiment would make the files again, so they are left to the next cleanup.
    // Runtimes in the stand's cgroup are killed when the cgroup is removed.
    if dead.is_empty() || is_named_by_a_process(&state, name) {
        return Ok(None);
    }
    // Cgroups have no marks: they belong to the stand as long as its state directory exists.
    let is_whole = dead.iter().any(|(place, _)| *place == state);
    let left = is_whole.then(|| Parent::named(name)).transpose()?;
    let cgroups = counted(left.as_ref().map_or(0, Parent::count), "cgroup");
    left.map_or(Ok(()), |parent| parent.remove())?;
    // The state directory is removed last: without it, the rest can't be found.
    let mounts = dead.iter().map(|(place, _lock)| remove(place)).sum::<Result<usize, _>>()?;
    let mounts = counted(mounts, "mount");
    Ok(Some(format!("{name}: {cgroups}, {mounts} and its directories removed")))
}

/// `dayfly bench gc`.
///
/// # Errors
/// The first that prevents a removal.
pub fn command() -> Result<(), Error> {
    let mut result = Ok(());
    for left in clear()? {
        match left {
            Ok(told) => println!("{told}"),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}

/// Returns whether the command line of a process outside the cgroup `group` contains `path`. A runtime's command line
/// contains the path of its state directory.
fn is_named_by_a_process(path: &Path, group: &str) -> bool {
    let path = path.as_os_str().as_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = format!(":/{group}/");
    let is_in_it = |process: &Path| {
        fs::read_to_string(process.join("cgroup")).is_ok_and(|groups| groups.contains(&own))
    };
    let mut others = entries.map(|entry| entry.path()).filter(|process| !is_in_it(process));
    let names = |word: &[u8]| {
        word.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    others.any(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn place(what: &str) -> PathBuf {
        let name = format!("bench-leftover-{what}-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&place);
        place
    }

    #[test]
    fn names_are_those_that_stands_get() {
        for name in ["dayfly-bench-1", "dayfly-bench-4711-pod"] {
            assert!(is_name(name), "{name}");
        }
        let foreign = ["results", "", "-pod", "12x", "1-pod-pod", "1-2", "+1", "1.tar", "-1"];
        for rest in foreign {
            assert!(!is_name(&format!("{PREFIX}{rest}")), "{rest}");
        }
        assert!(!is_name("12"));
    }

    #[test]
    fn processes_name_their_state() {
        let state = place("named");
        assert!(!is_named_by_a_process(&state, "none"));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "echo; read -r line", "sh"]).arg(state.join("crun"));
        shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = shell.spawn().expect("sh");
        // A process that is just being executed has no command line yet.
        child.stdout.take().expect("stdout").read_exact(&mut [0]).expect("a line");
        assert!(is_named_by_a_process(&state, "none"));
        assert!(!is_named_by_a_process(&state.with_extension("other"), "none"));
        drop(child.stdin.take());
        child.wait().expect("its end");
        assert!(!is_named_by_a_process(&state, "none"));
    }

    #[test]
    fn what_no_stand_made_is_foreign() {
        let top = place("foreign");
        assert!(marked(&top).is_none(), "nothing");
        fs::create_dir(&top).expect("mkdir");
        assert!(marked(&top).is_none(), "no mark");
        let file = top.join("file");
        fs::write(&file, "").expect("write");
        assert!(marked(&file).is_none(), "a file");
        let stand = top.join("stand");
        fs::create_dir(&stand).expect("mkdir");
        drop(own(&stand).expect("own"));
        let link = top.join("link");
        std::os::unix::fs::symlink(&stand, &link).expect("symlink");
        assert!(marked(&link).is_none(), "a link");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&stand, Some(1000), None).expect("chown");
            assert!(marked(&stand).is_none(), "somebody else's");
        }
        assert!(dead([top.clone(), file]).is_empty());
        fs::remove_dir_all(&top).expect("remove");
    }

    #[test]
    fn a_stand_is_dead_when_all_its_owners_are() {
        let top = place("stand");
        fs::create_dir(&top).expect("mkdir");
        let places = [top.join("directory"), top.join("state")];
        let mut locks = Vec::new();
        for place in &places {
            fs::create_dir(place).expect("mkdir");
            locks.push(own(place).expect("own"));
        }
        assert!(dead(places.clone()).is_empty(), "both live");
        locks.pop();
        assert!(dead(places.clone()).is_empty(), "one lives");
        locks.clear();
        assert_eq!(dead(places).len(), 2);
        fs::remove_dir_all(&top).expect("remove");
    }
}
