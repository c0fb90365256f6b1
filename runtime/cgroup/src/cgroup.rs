//! A container's cgroup: creating a new one and opening an existing one.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, mkdir, rmdir};
use rustix::io::Errno;
use spec::resources::Resources;

use crate::devices::{self, Rule, program};
use crate::directory::Directory;
use crate::freezer::FreezerState;
use crate::systemd::Unit;
use crate::v1::{self, Legacy};
use crate::v2::{controllers, limits};
use crate::{Controller, Error, Location, Place, processes, remove, scope};

const SIGKILL: i32 = 9;

/// The open cgroup of a container.
///
/// Dropping this value kills the processes of a cgroup that the value [created](Cgroup::create), and removes the
/// cgroup, unless [`Cgroup::keep`] was called.
#[derive(Debug, Default)]
pub struct Cgroup {
    /// The cgroup v2 directory. On a hybrid host, no controllers are on v2, and the directory is only used to track the
    /// processes.
    pub(crate) unified: Option<Unified>,
    /// The cgroup v1 directories, in the order of [`Location::legacy`].
    pub(crate) legacy: Vec<Legacy>,
    /// The directories of the cgroup itself that this value created.
    made: Vec<String>,
    /// The parent directories that this value created, from the top down.
    made_above: Vec<String>,
    /// The systemd unit, if systemd manages the cgroup.
    unit: Option<Unit>,
    /// Whether this value started the unit.
    started: bool,
}

/// The open directory of a cgroup on cgroup v2.
#[derive(Debug)]
pub(crate) struct Unified {
    pub place: Place,
    pub directory: Directory,
}

impl Cgroup {
    /// Creates the cgroup and sets its limits, without moving a process into it.
    ///
    /// On cgroup v2, `program` is a loaded device program that will be attached. If it is `None`, a program is
    /// assembled from `resources.devices`.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] and [`Error::Frozen`] if the cgroup already exists and is in use; [`Error::NoController`] if
    /// the controller of a limit is missing; [`Error::Invalid`]; failing system calls. On failure, the directories
    /// created so far are removed.
    pub fn create(
        location: &Location,
        resources: &Resources,
        program: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Error> {
        let (cgroup, rules, is_new) = Self::made(location, resources, |_| false)?;
        cgroup.apply(resources, &rules, program, is_new)?;
        Ok(cgroup)
    }

    /// Creates a cgroup like [`Cgroup::create`], for a caller who may lack permissions. v1 hierarchies that deny access
    /// are skipped if at least one other remains. Device rules that cannot be set are ignored, because only the host's
    /// root can load device programs.
    ///
    /// # Errors
    /// Those of [`Cgroup::create`]; [`Error::is_permission`] is true if the caller may not create the cgroup in any
    /// hierarchy.
    pub fn create_as_user(location: &Location, resources: &Resources) -> Result<Self, Error> {
        let (cgroup, rules, is_new) = Self::made(location, resources, is_denied)?;
        cgroup.set_limits(resources)?;
        let _ = cgroup.set_devices(&rules, None, is_new);
        Ok(cgroup)
    }

    /// Makes the directories, of which none may be in use. Returns whether the first is new, too.
    fn made(
        location: &Location,
        resources: &Resources,
        passes_over: impl Fn(&sys::Error) -> bool,
    ) -> Result<(Self, Vec<Rule>, bool), Error> {
        let rules = Rule::list(&resources.devices)?;
        if !location.is_unified() && !resources.unified.is_empty() {
            return Err(Error::UnifiedOnV1);
        }
        let mut cgroup = Self::default();
        cgroup.make_where(location, resources, passes_over)?;
        cgroup.check_unused()?;
        let is_new = cgroup.is_new(cgroup.primary()?);
        Ok((cgroup, rules, is_new))
    }

    /// Opens the cgroup of an existing container, in those hierarchies in which its directory exists.
    ///
    /// # Errors
    /// [`Error::Gone`] if none of its directories exists; failing system calls.
    pub fn open(location: &Location) -> Result<Self, Error> {
        let cgroup = Self::open_rest(location)?;
        // On a hybrid host, the v2 directory alone does not count, because it has no controllers.
        if cgroup.legacy.is_empty() && !(location.is_unified() && cgroup.unified.is_some()) {
            let legacy = location.legacy.iter().map(|legacy| &legacy.place);
            let first = legacy.chain(&location.unified).next();
            let directory = first.map_or("", Place::directory).to_string();
            return Err(Error::Gone(directory));
        }
        Ok(cgroup)
    }

    /// Opens those directories of a cgroup that still exist, if any.
    pub(crate) fn open_rest(location: &Location) -> Result<Self, Error> {
        let mut cgroup = Self::default();
        cgroup.unit.clone_from(&location.unit);
        if let Some(place) = &location.unified {
            cgroup.unified =
                open_if_there(place)?.map(|directory| Unified { place: place.clone(), directory });
        }
        for legacy in &location.legacy {
            if let Some(directory) = open_if_there(&legacy.place)? {
                cgroup.legacy.push(Legacy { controllers: legacy.controllers, directory });
            }
        }
        Ok(cgroup)
    }

    /// Changes limits. Limits that `resources` does not specify stay unchanged. Device rules, if there are any, replace
    /// all previous device rules.
    ///
    /// # Errors
    /// Those of [`Cgroup::create`]. If one limit cannot be written, limits written before it stay changed.
    pub fn set(&self, resources: &Resources) -> Result<(), Error> {
        let rules = Rule::list(&resources.devices)?;
        match &self.unit {
            None => self.apply(resources, &rules, None, false),
            Some(unit) => {
                let _lock = self.lock_limits()?;
                self.apply(&self.set_unit(unit, resources)?, &rules, None, false)
            }
        }
    }

    /// Makes every cgroup v2 controller available in the cgroup, as [`Cgroup::create`] does.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn hand_down_controllers(&self) -> Result<(), Error> {
        match &self.unified {
            Some(Unified { place, directory }) => {
                controllers::enable(directory, place, &Resources::default())
            }
            None => Ok(()),
        }
    }

    /// Returns a value for the cgroup of a unit that was just started. No directories are open yet.
    pub(crate) fn of_started(unit: &Unit) -> Self {
        let mut cgroup = Self::default();
        cgroup.unit = Some(unit.clone());
        cgroup.started = true;
        cgroup
    }

    /// Keeps the cgroup when this value is dropped: from now on, the cgroup belongs to the container.
    pub fn keep(&mut self) {
        self.made.clear();
        self.made_above.clear();
        self.started = false;
    }

    /// Returns the cgroup v2 directory for clone3(2) with CLONE_INTO_CGROUP (Linux 5.7). A hybrid host also has such a
    /// directory.
    pub fn dir_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(|unified| unified.directory.fd())
    }

    /// Returns whether the cgroup enables controllers for its children. Such a cgroup cannot contain processes itself
    /// (cgroup v2, "no internal processes"). Returns false if this is unknown.
    pub fn hands_down(&self) -> bool {
        let handed = self.only_unified().map(|directory| directory.read("cgroup.subtree_control"));
        handed.and_then(Result::ok).is_some_and(|text| !text.trim().is_empty())
    }

    /// Returns the path of the cgroup v2 directory, if there is one.
    pub fn unified_path(&self) -> Option<&str> {
        self.unified.as_ref().map(|unified| unified.directory.path())
    }

    /// Opens the files to which a process must write `0` in order to join the cgroup in all v1 hierarchies. The kernel
    /// checks the permission of the process that opened the file, so the write also works inside a user namespace.
    ///
    /// If `thread` is true, opens the `tasks` files, which move only the calling thread; use this for a single-threaded
    /// process. Such a move does not take cgroup_threadgroup_rwsem. A move through `cgroup.procs` takes this lock for
    /// writing, which costs an RCU grace period unless another move was made shortly before ("cgroup: Optimize single
    /// thread migration", 9a3284fad42f, Linux 5.5; earlier kernels take the lock for both files): 11 ms for seven
    /// hierarchies, instead of 0.1 ms. The difference exists only if `0` is written: for a pid, the kernel takes the
    /// lock with either file. cgroup v2 has no file `tasks`. Its `cgroup.threads` moves threads only within a threaded
    /// subtree.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn entrances(&self, thread: bool) -> Result<Vec<OwnedFd>, Error> {
        let open = |legacy: &Legacy| Ok(processes::entrance(&legacy.directory, thread)?.into_fd());
        self.legacy.iter().map(open).collect()
    }

    /// Moves the caller into the cgroup in every hierarchy. The caller must be a single-threaded process, or a thread
    /// that is about to call execve(2), which ends the other threads. On v1, the move is made through the files of
    /// [`Cgroup::entrances`].
    ///
    /// # Errors
    /// Failing system calls.
    pub fn enter(&self) -> Result<(), Error> {
        for legacy in &self.legacy {
            processes::entrance(&legacy.directory, true)?.write(0)?;
        }
        self.unified.iter().try_for_each(|unified| processes::join(&unified.directory, 0))
    }

    /// Opens cgroup.procs of cgroup v2, for kernels without CLONE_INTO_CGROUP. It is used like the files of
    /// [`Cgroup::entrances`].
    ///
    /// # Errors
    /// Failing system calls.
    pub fn unified_procs_fd(&self) -> Result<Option<OwnedFd>, Error> {
        let Some(unified) = &self.unified else { return Ok(None) };
        Ok(Some(unified.directory.file("cgroup.procs", OFlags::WRONLY)?.into_fd()))
    }

    /// Moves the existing process `pid` into the cgroup in every hierarchy. This is slow: each move waits for an RCU
    /// grace period. A user may not move a process that is outside the cgroup of the user's systemd, for example in a
    /// login session. In that case, the user's systemd is asked to move the process.
    ///
    /// # Errors
    /// Failing system calls; [`Error::Systemd`].
    pub fn add(&self, pid: i32) -> Result<(), Error> {
        match (
            self.directories().try_for_each(|directory| processes::join(directory, pid)),
            self.user_unit(),
        ) {
            (Err(error), Some(unit)) if error.is_permission() => scope::attach(unit, pid),
            (result, _) => result,
        }
    }

    /// The directories in all hierarchies, that of cgroup v2 last.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Directory> {
        let legacy = self.legacy.iter().map(|legacy| &legacy.directory);
        legacy.chain(self.unified.as_ref().map(|unified| &unified.directory))
    }

    /// Returns whether the cgroup is a scope of a user's systemd, in which case [`Cgroup::add`] may have to call that
    /// systemd.
    pub fn is_of_user(&self) -> bool {
        self.user_unit().is_some()
    }

    fn user_unit(&self) -> Option<&Unit> {
        self.unit.as_ref().filter(|unit| unit.instance.is_user())
    }

    /// Makes the directory on cgroup v2, unless it exists or its parent does not.
    pub(crate) fn make_below(location: &Location) -> Option<Self> {
        let place = location.unified.as_ref().filter(|_| location.is_unified())?;
        let path = place.directory();
        mkdir(path, Mode::from_raw_mode(0o755)).ok()?;
        let mut cgroup = Self::default();
        cgroup.made.push(path.to_string());
        cgroup.unit.clone_from(&location.unit);
        let directory = Directory::open(path).ok()?;
        cgroup.unified = Some(Unified { place: place.clone(), directory });
        Some(cgroup)
    }

    /// Creates the cgroup's directories and opens them.
    pub(crate) fn make(&mut self, location: &Location, resources: &Resources) -> Result<(), Error> {
        self.make_where(location, resources, |_| false)
    }

    /// Like [`make`](Self::make), but skips a v1 hierarchy if `passes_over` accepts the error of creating its
    /// directory. If no v1 hierarchy remains, returns the last such error.
    fn make_where(
        &mut self,
        location: &Location,
        resources: &Resources,
        passes_over: impl Fn(&sys::Error) -> bool,
    ) -> Result<(), Error> {
        let mut passed_over = None;
        if let Some(place) = &location.unified {
            match self.make_directory(place) {
                Ok(directory) => {
                    self.unified = Some(Unified { place: place.clone(), directory });
                }
                // On a hybrid host, the v2 directory is not required, because all controllers are on v1.
                Err(_) if !location.is_unified() => {}
                Err(error) => return Err(error.into()),
            }
        }
        for legacy in &location.legacy {
            let directory = match self.make_directory(&legacy.place) {
                Ok(directory) => directory,
                Err(_) if legacy.controllers.is_optional() => continue,
                Err(error) if passes_over(&error) => {
                    passed_over = Some(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if legacy.controllers.contains(Controller::Cpuset) {
                let is_new = self.is_new(&directory);
                v1::cpuset::inherit(&directory, &legacy.place, is_new, resources.cpu.as_ref())?;
            }
            self.legacy.push(Legacy { controllers: legacy.controllers, directory });
        }
        match passed_over {
            Some(error) if self.legacy.is_empty() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Creates and opens one directory; creates its parents if they are missing.
    fn make_directory(&mut self, place: &Place) -> Result<Directory, sys::Error> {
        let path = place.directory();
        let mode = Mode::from_raw_mode(0o755);
        let mut made = mkdir(path, mode);
        // If another container is being removed, an empty parent may disappear before its child is created.
        for _ in 0..10 {
            if made != Err(Errno::NOENT) {
                break;
            }
            for ancestor in place.ancestors().skip(1) {
                match mkdir(ancestor, mode) {
                    Ok(()) => self.made_above.push(ancestor.to_string()),
                    Err(Errno::EXIST | Errno::NOENT) => {}
                    Err(errno) => return Err(sys::Error::new("mkdir", ancestor, errno)),
                }
            }
            made = mkdir(path, mode);
        }
        match made {
            Ok(()) => self.made.push(path.to_string()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(sys::Error::new("mkdir", path, errno)),
        }
        Directory::open(path)
    }

    /// Returns the cgroup v2 directory if no v1 hierarchies are used.
    pub(crate) fn only_unified(&self) -> Option<&Directory> {
        let unified = self.unified.as_ref().filter(|_| self.legacy.is_empty());
        unified.map(|unified| &unified.directory)
    }

    /// Returns whether this value created the directory.
    fn is_new(&self, directory: &Directory) -> bool {
        self.made.iter().any(|path| path == directory.path())
    }

    /// Returns an error if the cgroup already contains processes or is frozen. If it contained processes of another
    /// container, the two containers would share limits, and the removal of one would kill the other. In a frozen
    /// cgroup, the start would hang.
    pub(crate) fn check_unused(&self) -> Result<(), Error> {
        let primary = self.primary()?;
        if !self.is_new(primary) {
            let directory = primary.path().to_string();
            match processes::all(primary)?.len() {
                0 => {}
                processes => return Err(Error::NotEmpty { directory, processes }),
            }
        }
        // Another program may have created the directory in the v1 freezer hierarchy only, so it is checked separately.
        match self.freezer_directory() {
            Some(freezer) if !self.is_new(freezer) => match self.freezer_state()? {
                FreezerState::Frozen => Err(Error::Frozen(freezer.path().to_string())),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Sets the limits and device rules. If `is_new` is true, the cgroup cannot have a device program yet.
    pub(crate) fn apply(
        &self,
        resources: &Resources,
        rules: &[Rule],
        program: Option<BorrowedFd<'_>>,
        is_new: bool,
    ) -> Result<(), Error> {
        self.set_limits(resources)?;
        self.set_devices(rules, program, is_new)
    }

    pub(crate) fn set_limits(&self, resources: &Resources) -> Result<(), Error> {
        if !self.legacy.is_empty() {
            return v1::limits::set(&self.legacy, resources);
        }
        let Some(Unified { place, directory }) = &self.unified else { return Ok(()) };
        controllers::enable(directory, place, resources)?;
        limits::set(directory, resources)
    }

    pub(crate) fn set_devices(
        &self,
        rules: &[Rule],
        program: Option<BorrowedFd<'_>>,
        is_new: bool,
    ) -> Result<(), Error> {
        if !self.legacy.is_empty() {
            if !rules.is_empty() {
                let directory = v1::require(&self.legacy, Controller::Devices, "devices.allow")?;
                devices::legacy::apply(directory, rules)?;
            }
            return Ok(());
        }
        let Some(Unified { directory, .. }) = &self.unified else { return Ok(()) };
        if let Some(program) = program {
            return program::attach(directory, program, is_new);
        }
        if rules.is_empty() || (is_new && program::allows_everything(rules)) {
            return Ok(());
        }
        let program = program::load_program(&program::assemble(rules))?;
        program::attach(directory, program.as_fd(), is_new)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.unmake();
        let legacy = core::mem::take(&mut self.legacy);
        sys::exec::close_each(legacy.into_iter().map(|legacy| legacy.directory.into_fd()));
    }
}

impl Cgroup {
    /// Removes everything that this value created, unless [`Cgroup::keep`] was called.
    fn unmake(&mut self) {
        if self.made.is_empty() && self.made_above.is_empty() && !self.started {
            return;
        }
        // Failures are ignored: this function cannot report them, and its caller already reports an error.
        if let (Some(unit), true) = (&self.unit, self.started) {
            let _ = self.kill_all(SIGKILL);
            let _ = scope::stop_unit(unit);
            // If systemd finds processes in the scope, even for a moment, it forgets the scope and leaves its directory
            // in place.
            if let Some(unified) = &self.unified {
                let _ = remove::remove(self, &[unified.place.directory().to_string()]);
            }
        }
        let _ = remove::remove(self, &self.made);
        for path in self.made_above.iter().rev() {
            let _ = rmdir(path.as_str());
        }
    }
}

fn is_denied(error: &sys::Error) -> bool {
    matches!(error.errno, Errno::PERM | Errno::ACCESS | Errno::ROFS)
}

fn open_if_there(place: &Place) -> Result<Option<Directory>, Error> {
    match Directory::open(place.directory()) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.errno == Errno::NOENT => Ok(None),
        Err(error) => Err(error.into()),
    }
}
