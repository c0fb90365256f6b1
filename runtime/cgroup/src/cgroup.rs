//! A container's cgroup: making it, and opening the one that is there.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, mkdir, rmdir};
use rustix::io::Errno;
use spec::resources::Resources;
use systemd::Unit;

use crate::devices::{self, Rule, program};
use crate::directory::Directory;
use crate::freezer::FreezerState;
use crate::v1::{self, Legacy};
use crate::v2::{controllers, limits};
use crate::{Controller, Error, Location, Place, processes, remove, scope};

const SIGKILL: i32 = 9;

/// The open cgroup of a container.
///
/// One that was [created](Cgroup::create) is removed when it is dropped, processes and all, unless
/// [`Cgroup::keep`] was called.
#[derive(Debug, Default)]
pub struct Cgroup {
    /// On cgroup v2: everything, or on a hybrid host the processes only.
    pub(crate) unified: Option<Unified>,
    /// On cgroup v1, in the order of the location.
    pub(crate) legacy: Vec<Legacy>,
    /// The directories this value made for itself.
    made: Vec<String>,
    /// The directories it made on the way to them, from the top down.
    made_above: Vec<String>,
    /// The unit that it is, where systemd manages it.
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
    /// Makes the cgroup and sets its limits. No process is moved.
    ///
    /// On cgroup v2 `program` is a loaded device program to attach; without it one is assembled from
    /// `resources.devices`.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] and [`Error::Frozen`] if it is there already and in use;
    /// [`Error::NoController`] for a limit that cannot be; [`Error::Invalid`]; failing system calls.
    /// Whatever was made is removed again.
    pub fn create(
        location: &Location,
        resources: &Resources,
        program: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Error> {
        let rules = Rule::list(&resources.devices)?;
        if !location.is_unified() && !resources.unified.is_empty() {
            return Err(Error::UnifiedOnV1);
        }
        let mut cgroup = Self::default();
        cgroup.make(location, resources)?;
        cgroup.check_unused()?;
        let is_new = cgroup.is_new(cgroup.primary()?);
        cgroup.apply(resources, &rules, program, is_new)?;
        Ok(cgroup)
    }

    /// As [`Cgroup::create`] for a caller who may lack the right to: v1 hierarchies that are denied are
    /// gone without, as long as there is one, and so are device rules, which only the host's root loads.
    ///
    /// # Errors
    /// As [`Cgroup::create`]; [`Error::is_permission`] is true where no cgroup can be made at all.
    pub fn create_as_user(location: &Location, resources: &Resources) -> Result<Self, Error> {
        let rules = Rule::list(&resources.devices)?;
        if !location.is_unified() && !resources.unified.is_empty() {
            return Err(Error::UnifiedOnV1);
        }
        let mut cgroup = Self::default();
        cgroup.make_where(location, resources, is_denied)?;
        cgroup.check_unused()?;
        let is_new = cgroup.is_new(cgroup.primary()?);
        cgroup.set_limits(resources)?;
        let _ = cgroup.set_devices(&rules, None, is_new);
        Ok(cgroup)
    }

    /// Opens the cgroup of an existing container, or as much as there is of it.
    ///
    /// # Errors
    /// [`Error::Gone`] if there is none; failing system calls.
    pub fn open(location: &Location) -> Result<Self, Error> {
        let cgroup = Self::open_rest(location)?;
        // The v2 half of a hybrid host alone could do next to nothing.
        if cgroup.legacy.is_empty() && !(location.is_unified() && cgroup.unified.is_some()) {
            let legacy = location.legacy.iter().map(|legacy| &legacy.place);
            let first = legacy.chain(&location.unified).next();
            let directory = first.map_or("", Place::directory).to_string();
            return Err(Error::Gone { directory });
        }
        Ok(cgroup)
    }

    /// Opens whatever is left of a cgroup, if anything.
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

    /// Changes limits; what `resources` do not mention stays as it is. Device rules, if there are
    /// any, replace all former ones.
    ///
    /// # Errors
    /// As [`Cgroup::create`]. What was written before the failure stays.
    pub fn set(&self, resources: &Resources) -> Result<(), Error> {
        let rules = Rule::list(&resources.devices)?;
        match &self.unit {
            None => self.apply(resources, &rules, None, false),
            Some(unit) => self.apply(&self.set_unit(unit, resources)?, &rules, None, false),
        }
    }

    /// Has every controller of cgroup v2 handed down to it, as for one that is made anew.
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

    /// The cgroup of a unit that was just started, with nothing open yet.
    pub(crate) fn of_started(unit: &Unit) -> Self {
        let mut cgroup = Self::default();
        cgroup.unit = Some(unit.clone());
        cgroup.started = true;
        cgroup
    }

    /// Keeps the cgroup when this value is dropped: the container has it now.
    pub fn keep(&mut self) {
        self.made.clear();
        self.made_above.clear();
        self.started = false;
    }

    /// The directory for clone3(2) with CLONE_INTO_CGROUP (Linux 5.7): on cgroup v2, also of a
    /// hybrid host.
    pub fn dir_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(|unified| unified.directory.fd())
    }

    /// Whether it hands controllers down to cgroups below it, and so can have no processes of its own (cgroup v2,
    /// "no internal processes"). Not where that cannot be told.
    pub fn hands_down(&self) -> bool {
        let handed = self.only_unified().map(|directory| directory.read("cgroup.subtree_control"));
        handed.and_then(Result::ok).is_some_and(|text| !text.trim().is_empty())
    }

    /// Where it is in cgroup v2, if it is.
    pub fn unified_path(&self) -> Option<&str> {
        self.unified.as_ref().map(|unified| unified.directory.path())
    }

    /// What a process writes `0` into to join all v1 hierarchies. The kernel asks whoever opened a file for
    /// the permission, so that this can happen inside of a user namespace.
    ///
    /// By `thread` it is the file `tasks`, which moves the calling thread alone: for a process that has no
    /// other one. Such a move leaves out cgroup_threadgroup_rwsem, which a move by `cgroup.procs` takes for
    /// writing, at the price of an RCU grace period unless there was another move a moment ago ("cgroup:
    /// Optimize single thread migration", 9a3284fad42f, Linux 5.5; before it, both take the lock). Only `0`
    /// does: with a number the kernel takes the lock in either file. cgroup v2 has no such file: threads move
    /// there within threaded cgroups only.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn entrances(&self, thread: bool) -> Result<Vec<OwnedFd>, Error> {
        let open = |legacy: &Legacy| Ok(processes::entrance(&legacy.directory, thread)?.into_fd());
        self.legacy.iter().map(open).collect()
    }

    /// Moves the caller into the cgroup in every hierarchy: a process of one thread, or a thread that is about
    /// to execute a program, which ends the others. On v1 see [`Cgroup::entrances`].
    ///
    /// # Errors
    /// Failing system calls.
    pub fn enter(&self) -> Result<(), Error> {
        for legacy in &self.legacy {
            processes::entrance(&legacy.directory, true)?.write(0)?;
        }
        self.unified.iter().try_for_each(|unified| processes::join(&unified.directory, 0))
    }

    /// As [`Cgroup::entrances`] for cgroup v2, where CLONE_INTO_CGROUP cannot be had.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn unified_procs_fd(&self) -> Result<Option<OwnedFd>, Error> {
        let Some(unified) = &self.unified else { return Ok(None) };
        Ok(Some(unified.directory.file("cgroup.procs", OFlags::WRONLY)?.into_fd()))
    }

    /// Moves the process `pid` into the cgroup in every hierarchy. Slow: a migration waits for an
    /// RCU grace period. For processes that exist already. A user who may not, as the process comes from
    /// elsewhere than the user's systemd (from a session), has systemd do it.
    ///
    /// # Errors
    /// Failing system calls; [`Error::Systemd`].
    pub fn add(&self, pid: i32) -> Result<(), Error> {
        let legacy = self.legacy.iter().map(|legacy| &legacy.directory);
        let mut all = legacy.chain(self.unified.as_ref().map(|unified| &unified.directory));
        match (all.try_for_each(|directory| processes::join(directory, pid)), self.user_unit()) {
            (Err(error), Some(unit)) if error.is_permission() => scope::attach(unit, pid),
            (result, _) => result,
        }
    }

    /// Whether it is a scope of a user's systemd, which [`Cgroup::add`] may have to ask.
    pub fn is_of_user(&self) -> bool {
        self.user_unit().is_some()
    }

    fn user_unit(&self) -> Option<&Unit> {
        self.unit.as_ref().filter(|unit| unit.instance.is_user())
    }

    /// Makes and opens the directories.
    pub(crate) fn make(&mut self, location: &Location, resources: &Resources) -> Result<(), Error> {
        self.make_where(location, resources, |_| false)
    }

    /// Makes and opens the directories, but for those in v1 hierarchies whose failure is passed over; not
    /// all of them can be.
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
                // On a hybrid host cgroup v2 is good for nothing that v1 could not do.
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

    /// Makes one directory, and those above it if need be, and opens it.
    fn make_directory(&mut self, place: &Place) -> Result<Directory, sys::Error> {
        let path = place.directory();
        let mode = Mode::from_raw_mode(0o755);
        let mut made = mkdir(path, mode);
        // The end of another container may take an empty parent away before we are in it.
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

    /// The directory on cgroup v2, where that has every controller.
    pub(crate) fn only_unified(&self) -> Option<&Directory> {
        let unified = self.unified.as_ref().filter(|_| self.legacy.is_empty());
        unified.map(|unified| &unified.directory)
    }

    /// Whether this value made the directory.
    fn is_new(&self, directory: &Directory) -> bool {
        self.made.iter().any(|path| path == directory.path())
    }

    /// Refuses a cgroup that was there before and has processes, as two containers would share
    /// limits and the end of one would kill the other; or is frozen, as the start would hang.
    pub(crate) fn check_unused(&self) -> Result<(), Error> {
        let primary = self.primary()?;
        if !self.is_new(primary) {
            let directory = primary.path().to_string();
            match processes::all(primary)?.len() {
                0 => {}
                processes => return Err(Error::NotEmpty { directory, processes }),
            }
        }
        // On v1 that may have been made by somebody else, and alone.
        match self.freezer_directory() {
            Some(freezer) if !self.is_new(freezer) => match self.freezer_state()? {
                FreezerState::Frozen => {
                    Err(Error::Frozen { directory: freezer.path().to_string() })
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Sets limits and device rules; a new cgroup has no device program yet.
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
    /// Removes what this value made, unless it is to be kept.
    fn unmake(&mut self) {
        if self.made.is_empty() && self.made_above.is_empty() && !self.started {
            return;
        }
        // There is nobody to tell of a failure; whoever dropped us has one to report already.
        if let (Some(unit), true) = (&self.unit, self.started) {
            let _ = self.kill_all(SIGKILL);
            let _ = scope::stop_unit(unit);
            // It leaves what it finds somebody in, be it for a moment, and forgets it.
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
