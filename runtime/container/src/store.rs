//! The state root: a directory with one subdirectory per container.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};
use sys::Context;
use sys::stdio::Stderr;
use trace::Phase;

use crate::directory::{
    RECORD, START, check_id, is_locked, lock, path_in, remove, remove_directory,
};
use crate::error::damaged;
use crate::identity::{self, Identity};
use crate::record::{self, Damage, Found, Stored};
use crate::state::State;
use crate::{Container, Error, Trace, Unless as _, cache};

/// The length of generated ids, and the minimum number of leading digits that a user must give to select one.
const GENERATED: usize = 16;
const LEAST: usize = 3;

/// The state root.
#[derive(Debug)]
pub struct Store {
    root: Rc<OwnedFd>,
    path: String,
    trace: &'static Trace,
}

/// A container's directory that this command has created and locked.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The directory.
    pub directory: OwnedFd,
    /// The record's file, still empty.
    pub record: OwnedFd,
    /// A second descriptor of the directory, which holds the lock. It is used if init does not wait for `start`: the
    /// command closes the descriptor when init continues, and init's duplicate keeps the lock until execve(2). If
    /// `None`, `directory` holds the lock.
    pub lock: Option<OwnedFd>,
}

impl Store {
    /// Opens the state root for a command and its trace. Creates a missing state root with mode 0700.
    ///
    /// # Errors
    /// If the directory cannot be created or opened.
    pub fn open(path: &str, trace: &'static Trace) -> Result<Self, Error> {
        trace.point("open state root", path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                sys::fs::make_directories(path, 0o700)
                    .map_err(|(_, errno)| sys::Error::new("mkdir", path, errno))?;
                openat(CWD, path, flags, Mode::empty())
            }
            result => result,
        };
        let root = Rc::new(root.context("open", path)?);
        Ok(Self { root, path: path.to_string(), trace })
    }

    /// Opens the state root for a command that changes nothing. If there is no state root, it has no containers.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn open_for_plan(path: &str, trace: &'static Trace) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = match openat(CWD, path, flags, Mode::empty()) {
            // No name is found in what is no directory.
            Err(Errno::NOENT) => openat(CWD, "/dev/null", flags, Mode::empty()),
            result => result,
        };
        let root = Rc::new(root.context("open", path)?);
        Ok(Self { root, path: path.to_string(), trace })
    }

    pub(crate) fn trace(&self) -> &'static Trace {
        self.trace
    }

    /// Returns the state root's path as given by the caller.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn root_fd(&self) -> &Rc<OwnedFd> {
        &self.root
    }

    /// Opens a container.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such container; an error if its record is damaged.
    pub fn container(&self, id: &str) -> Result<Container, Error> {
        self.trace.work(Phase::Configuration, "read record", id, || self.find(id))
    }

    /// Returns the generated id that starts with `beginning`. Ids chosen by the user are never completed.
    ///
    /// # Errors
    /// If several ids match, or if the state root cannot be read.
    fn complete(&self, beginning: &str) -> Result<Option<String>, Error> {
        let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if beginning.len() < LEAST || !is_hex(beginning) {
            return Ok(None);
        }
        // A directory has exactly this name, so `beginning` is a whole id. A killed `create` left the directory.
        if self.directory(beginning).is_ok() {
            return Ok(None);
        }
        let mut names = self.names()?;
        names.retain(|id| id.len() == GENERATED && is_hex(id) && id.starts_with(beginning));
        match names.len() {
            0 | 1 => Ok(names.pop()),
            count => {
                Err(Error::Text(format!("{beginning} is the beginning of {count} container ids")))
            }
        }
    }

    /// Opens the container with this id or, if there is none, the container whose generated id starts with `id`.
    ///
    /// # Errors
    /// Those of [`Store::container`]; if several generated ids match; if the state root cannot be read.
    pub fn by_beginning(&self, id: &str) -> Result<Container, Error> {
        match self.container(id) {
            Err(error) if error.is_not_found() => match self.complete(id)? {
                Some(id) => self.container(&id),
                None => Err(error),
            },
            found => found,
        }
    }

    fn find(&self, id: &str) -> Result<Container, Error> {
        check_id(id)?;
        let directory = match self.directory(id) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Err(Error::NotFound(id.into())),
            Err(errno) => Err(errno).context("open", format!("{}/{id}", self.path))?,
        };
        match record::read(directory.as_fd(), id)? {
            Found::Whole(stored) if stored.header.process.is_some() => {
                self.assemble(directory, stored, false)
            }
            Found::Whole(stored) if is_locked(directory.as_fd()) => {
                self.assemble(directory, stored, true)
            }
            // The container's creation may have completed between reading the record and checking the lock.
            Found::Whole(_) => match record::read(directory.as_fd(), id)? {
                Found::Whole(stored) => self.assemble(directory, stored, false),
                Found::Nothing | Found::Damaged(..) => Err(Error::NotFound(id.into())),
            },
            // The record is written before anything else is created: a `create` has just begun, or was killed before it
            // created anything but the directory.
            Found::Nothing => Err(Error::NotFound(id.into())),
            Found::Damaged(..) if is_locked(directory.as_fd()) => Err(Error::NotFound(id.into())),
            Found::Damaged(_, damage) => Err(damaged(id, damage)),
        }
    }

    fn assemble(
        &self,
        directory: OwnedFd,
        stored: Stored,
        is_begun: bool,
    ) -> Result<Container, Error> {
        let root = Rc::clone(&self.root);
        let Stored { header, record, filter } = stored;
        self.trace
            .heed(record.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        Ok(Container { root, directory, header, record, is_begun, filter, trace: self.trace })
    }

    fn directory(&self, id: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&*self.root, id, flags, Mode::empty())
    }

    /// Creates a container's directory, locks it and creates the empty file of its record. First removes a directory
    /// that a killed `create` left without a record.
    ///
    /// The command that creates the record's file (O_EXCL) owns the directory. The success of mkdir(2) is not enough:
    /// before the lock is taken, another command may remove the directory, and a third may create a complete container
    /// with the same name.
    pub(crate) fn claim(&self, id: &str) -> Result<Claim, Error> {
        let object = || format!("{}/{id}", self.path);
        // Tries at most twice: the second time after leftovers have been removed.
        for _ in 0..2 {
            match mkdirat(&*self.root, id, Mode::from_raw_mode(0o700)) {
                Ok(()) => {
                    let directory = match self.directory(id) {
                        // Another command has removed the new directory as a leftover.
                        Err(Errno::NOENT) => continue,
                        result => result.context("open", object()),
                    };
                    let directory = directory.inspect_err(|_| {
                        let _ = remove_directory(self.root.as_fd(), id);
                    })?;
                    lock(directory.as_fd()).map_err(|_| Error::Exists(id.into()))?;
                    let stat = check_owner(&directory, id)?;
                    // Another command may have removed the directory as a leftover before it was locked.
                    if stat.st_nlink == 0 {
                        continue;
                    }
                    match record::begin(directory.as_fd()) {
                        Ok(record) => return Ok(Claim { directory, record, lock: None }),
                        // The directory belongs to the command that created the record.
                        Err(Errno::EXIST) => return Err(Error::Exists(id.into())),
                        // Another command has removed the directory, which it took for an earlier one of this name.
                        Err(Errno::NOENT) => {}
                        Err(errno) => {
                            let _ = remove_directory(self.root.as_fd(), id);
                            return Err(sys::Error::new("create", RECORD, errno).into());
                        }
                    }
                }
                Err(Errno::EXIST) => {
                    let directory = match self.directory(id) {
                        // Another command, which creates or deletes the container, has removed the directory.
                        Err(Errno::NOENT) => continue,
                        result => result.context("open", object())?,
                    };
                    if is_locked(directory.as_fd()) {
                        return Err(Error::Exists(id.into()));
                    }
                    check_owner(&directory, id)?;
                    check_free(directory.as_fd(), id)?;
                    // The directory's creator may be about to lock it and to write the record. So the check is repeated
                    // under the lock.
                    lock(directory.as_fd()).map_err(|_| Error::Exists(id.into()))?;
                    check_free(directory.as_fd(), id)?;
                    self.remove(directory.as_fd(), id)?;
                }
                Err(errno) => return Err(sys::Error::new("mkdir", object(), errno).into()),
            }
        }
        Err(Error::Exists(id.into()))
    }

    /// Opens a claimed directory again, without its lock.
    pub(crate) fn reopen(&self, id: &str) -> Result<OwnedFd, Error> {
        Ok(self.directory(id).context("open", format!("{}/{id}", self.path))?)
    }

    /// Removes a container's directory.
    pub(crate) fn remove(&self, directory: BorrowedFd<'_>, id: &str) -> Result<(), Error> {
        Ok(remove(self.root.as_fd(), directory, id)?)
    }

    /// Removes the directory of a killed `create` that has not written its record. Does nothing if there is no such
    /// directory.
    ///
    /// # Errors
    /// If another user owns the directory, or if it cannot be removed.
    pub fn remove_unrecorded(&self, id: &str) -> Result<(), Error> {
        let Some(directory) = self.seize(id)? else { return Ok(()) };
        match record::read(directory.as_fd(), id)? {
            Found::Nothing if !is_waiting(directory.as_fd()) => self.remove(directory.as_fd(), id),
            _ => Ok(()),
        }
    }

    /// Removes the remains of a container whose record is missing or damaged: its directory, the process named in a
    /// damaged record, if that process is alive, and the process's cgroup. `delete` calls this function. If the record
    /// is damaged, `delete` calls it only with `--force`.
    ///
    /// # Errors
    /// If the process or its cgroup cannot be removed.
    pub fn sweep(&self, id: &str) -> Result<(), Error> {
        self.trace.point("sweep", id)?;
        let Some(directory) = self.seize(id)? else { return Ok(()) };
        let process = match record::read(directory.as_fd(), id)? {
            Found::Damaged(process, _) => process,
            Found::Nothing => None,
            // The container is complete.
            Found::Whole(_) => return Ok(()),
        };
        match find_process(process)? {
            Some((pid, pidfd)) => {
                self.trace.point("kill init of", id)?;
                end(pid, &pidfd)?;
            }
            None if is_waiting(directory.as_fd()) => {
                return Err(Error::Text(format!(
                    "state of container {id} is damaged, and its process still runs but cannot be \
                     found by the record; kill the process first"
                )));
            }
            None => {}
        }
        self.trace.point("remove remains of", id)?;
        self.remove(directory.as_fd(), id)
    }

    /// Opens and locks a container's directory. Returns `None` if there is no such directory, or if another command
    /// holds the lock. Such a command is creating or removing the container, or has just done so.
    fn seize(&self, id: &str) -> Result<Option<OwnedFd>, Error> {
        let Some(directory) = self.owned(id)? else { return Ok(None) };
        match lock(directory.as_fd()) {
            Err(Errno::AGAIN) => Ok(None),
            result => Ok(result.map(|()| Some(directory)).context("flock", id)?),
        }
    }

    /// Opens a container's directory, if there is one.
    ///
    /// # Errors
    /// If another user owns the directory.
    pub(crate) fn owned(&self, id: &str) -> Result<Option<OwnedFd>, Error> {
        check_id(id)?;
        let directory = self.directory(id).unless(Errno::NOENT);
        let directory = directory.context("open", format!("{}/{id}", self.path))?;
        directory.as_ref().map(|directory| check_owner(directory, id)).transpose()?;
        Ok(directory)
    }

    /// Returns the states of all containers, sorted by id. Containers with an unreadable record are left out; a
    /// message on stderr reports each, as in runc.
    ///
    /// # Errors
    /// If the state root cannot be read.
    pub fn list(&self) -> Result<Vec<State>, Error> {
        let names = self.names()?;
        let mut states = Vec::with_capacity(names.len());
        for id in &names {
            match self.container(id).map(|container| container.state()) {
                Ok(Ok(state)) => states.push(state),
                // The container is being created or removed.
                Ok(Err(Error::NotFound(_))) => {}
                Ok(Err(error)) | Err(error) => self.complain(id, &error),
            }
        }
        Ok(states)
    }

    /// Returns the names of directories that may belong to containers, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let root = sys::fs::open_dir(&*self.root, ".").context("open", &self.path)?;
        let names = cache::names(root.as_fd()).context("getdents64", &self.path)?.into_iter();
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| spec::validate_id(name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    /// Prints the reason why a container cannot be listed, unless the container is being created or
    /// removed.
    fn complain(&self, id: &str, error: &Error) {
        let Ok(directory) = self.directory(id) else { return };
        if is_locked(directory.as_fd()) {
            return;
        }
        let _ = match error {
            Error::NotFound(_) if fstat(&directory).is_ok_and(|stat| is_fresh(&stat)) => Ok(()),
            Error::NotFound(_) => writeln!(
                Stderr,
                "load container {id}: record is missing (delete --force removes what is left)"
            ),
            error => writeln!(Stderr, "load container {id}: {error}"),
        };
    }
}

/// Refuses a directory owned by another user, because that user could lock it forever and create any files in it. Root
/// accepts only its own directories; other users accept their own and root's.
fn check_owner(directory: &OwnedFd, id: &str) -> Result<Stat, Error> {
    let stat = fstat(directory).context("fstat", id)?;
    let owner = stat.st_uid;
    match owner == 0 || owner == rustix::process::geteuid().as_raw() {
        true => Ok(stat),
        false => Err(Error::Foreign { id: id.into(), owner }),
    }
}

/// Returns whether a directory changed within the last second. Its creator may then not have locked it yet, or may have
/// written a record after this command looked for one.
fn is_fresh(stat: &Stat) -> bool {
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    (0..2).contains(&now.saturating_sub(stat.st_mtime))
}

/// Fails if the directory belongs to a complete container, or if a process of the container is alive although its
/// record is damaged or missing.
fn check_free(directory: BorrowedFd<'_>, id: &str) -> Result<(), Error> {
    let found = record::read(directory, id)?;
    let (process, damage) = match found {
        Found::Whole(_) => return Err(Error::Exists(id.into())),
        Found::Nothing => (None, Damage::Altered),
        Found::Damaged(process, damage) => (process, damage),
    };
    let lives = find_process(process)?.is_some() || is_waiting(directory);
    if lives { Err(damaged(id, damage)) } else { Ok(()) }
}

pub(crate) fn find_process(
    process: Option<(Pid, Identity)>,
) -> Result<Option<(Pid, OwnedFd)>, sys::Error> {
    let Some((pid, identity)) = process else { return Ok(None) };
    let pidfd = identity::open_alive(pid, identity).context("pidfd_open", "init")?;
    Ok(pidfd.map(|pidfd| (pid, pidfd)))
}

/// Returns whether an init is waiting for `start`.
fn is_waiting(directory: BorrowedFd<'_>) -> bool {
    matches!(launch::waiter(&path_in(directory, START)), launch::Waiter::Waiting)
}

/// Kills the init of a container whose record is damaged, and removes init's cgroup if it is empty afterwards.
fn end(pid: Pid, pidfd: &OwnedFd) -> Result<(), Error> {
    let location = cgroup::Location::of_process(&cgroup::Hierarchies::detect()?, pid)?;
    match sys::signal::send(pidfd.as_fd(), 9) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(sys::Error::new("kill", "init", errno).into()),
    }
    sys::pidfd::wait_for_exit(pidfd, identity::PATIENCE);
    Ok(cgroup::Cgroup::remove_empty(&location)?)
}
