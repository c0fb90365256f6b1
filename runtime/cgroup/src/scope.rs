//! The systemd cgroup driver: a container's cgroup is a transient scope unit that is created, changed and stopped
//! through systemd.
//!
//! A [`ScopeRequest`] asks systemd for a scope. systemd creates a scope for an existing process, and removes the scope
//! when the scope's last process exits. So the launcher has a process (the holder) for which the scope is made. The rest
//! of this crate treats the scope's directory like any other cgroup. Only creation, removal and changes of limits go
//! through systemd, because systemd would undo other changes at its next `daemon-reload`.
//!
//! A user's own systemd instance manages scopes in the same way, below the cgroup that the host's systemd has delegated
//! to it. This module also calls that instance for operations for which the user has no write permission.

mod early;
pub(crate) mod properties;
mod request;

pub use early::ScopeJob;
pub(crate) use early::is_loaded;
pub use request::ScopeRequest;

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::process::getpid;
use spec::resources::{Cpu, Pids, Resources};
use sys::Context;
use sys::fs::open_dir;

use self::properties::IDLE_SINCE;
use crate::directory::Directory;
use crate::location::clean;
use crate::stats::optional;
use crate::systemd::{Instance, Manager, Unit};
use crate::v2::limits;
use crate::wait::{self, Deadline};
use crate::{Cgroup, Controller, Error, Hierarchies, Location, Place, v1};

const SIGKILL: i32 = 9;
/// The time limit of a job of systemd.
const JOB_TIMEOUT: Duration = Duration::from_secs(30);

/// Finds a user's systemd instance through the values of DBUS_SESSION_BUS_ADDRESS and XDG_RUNTIME_DIR, and calls the
/// instance to get the path of its cgroup.
///
/// # Errors
/// [`Error::UserOnV1`]; [`Error::Systemd`] if neither variable leads to a bus, or the call fails; [`Error::BadPath`] if
/// the path of the instance's cgroup is invalid.
pub fn user_instance(
    hierarchies: &Hierarchies,
    bus: Option<&str>,
    runtime_dir: Option<&str>,
) -> Result<Instance, Error> {
    if !hierarchies.is_unified() {
        return Err(Error::UserOnV1);
    }
    let mut instance = Instance::user(bus, runtime_dir)?;
    let found = Manager::of(&instance)?.cgroup()?;
    if let Instance::User { cgroup, .. } = &mut instance
        && found != "/"
    {
        *cgroup = clean(&found)?;
    }
    Ok(instance)
}

impl Location {
    /// Returns the location of a unit's cgroup, without creating anything.
    pub fn of_unit(hierarchies: &Hierarchies, unit: Unit) -> Self {
        Self { unit: Some(unit.clone()), ..Self::at(hierarchies, &unit.path()) }
    }
}

impl Cgroup {
    /// Lowers the task limit by the one task that was added for the scope's holder. Call this when the holder has
    /// exited.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn without_holder(&self, resources: &Resources) -> Result<(), Error> {
        match task_limit(resources) {
            None => Ok(()),
            Some(limit) => {
                let pids = Some(Pids { limit: Some(limit) });
                self.apply(&Resources { pids, ..Resources::default() }, &[], None, false)
            }
        }
    }

    /// Locks the limits of a scope on cgroup v2. The lock is held while systemd's job, and whoever waits for it, may set the
    /// limits of the container's start. It ends with its last descriptor.
    ///
    /// # Errors
    /// EAGAIN if the lock is still held after half a minute; other failing system calls.
    pub fn lock_limits(&self) -> Result<OwnedFd, Error> {
        let directory = self.primary()?;
        // An open file of its own, since a lock belongs to one.
        let lock = open_dir(directory.fd(), c".").context("open", directory.path())?;
        sys::wait::lock(&lock, FlockOperation::NonBlockingLockExclusive, JOB_TIMEOUT)
            .context("flock", directory.path())?;
        Ok(lock)
    }

    /// Sets new limits as properties of the unit, before they are written to the files. Returns the limits to write to
    /// the files.
    pub(crate) fn set_unit(&self, unit: &Unit, resources: &Resources) -> Result<Resources, Error> {
        if let (Some(directory), Some(memory)) = (self.only_unified(), &resources.memory) {
            // systemd does not check the usage. If the limit were below the usage, the kernel would
            // kill processes of the container.
            limits::check_usage(directory, memory)?;
        }
        let mut resources = resources.clone();
        if let Some(cpu) = &mut resources.cpu {
            self.complete_bandwidth(cpu)?;
        }
        let resources = properties::rounded(&resources).into_owned();
        let unified = self.only_unified().is_some();
        let mut manager = None;
        let mut idles = false;
        if asks_for_idle(&resources) {
            let manager = manager.insert(Manager::connect(unit)?);
            idles = knows_idle(manager, unit, &resources)?;
        }
        let list = properties::of_resources(&resources, unified, idles)?;
        if !list.is_empty() {
            let mut manager = manager.map_or_else(|| Manager::connect(unit), Ok)?;
            manager.set(unit, &list)?;
        }
        Ok(resources)
    }

    /// Reads the quota and the period of CPU time, if the cgroup has them.
    pub(crate) fn bandwidth(&self) -> Result<Option<String>, Error> {
        let text = match (v1::find(&self.legacy, Controller::Cpu), self.only_unified()) {
            (Some(cpu), _) => cpu
                .read("cpu.cfs_quota_us")
                .and_then(|quota| Ok(quota + " " + &cpu.read("cpu.cfs_period_us")?)),
            (None, Some(directory)) => directory.read("cpu.max"),
            (None, None) => return Ok(None),
        };
        optional(text.map_err(Error::from))
    }

    /// If `cpu` contains only a quota or only a period, adds the current value of the missing one, because systemd's
    /// property combines both.
    fn complete_bandwidth(&self, cpu: &mut Cpu) -> Result<(), Error> {
        let quota = cpu.quota.filter(|quota| *quota != 0);
        let period = cpu.period.filter(|period| *period != 0);
        if quota.is_some() == period.is_some() {
            return Ok(());
        }
        let Some(text) = self.bandwidth()? else { return Ok(()) };
        let mut present = text.split_whitespace().map(str::parse::<i64>);
        // Without a quota, v2 has `max` and v1 has -1.
        let (present_quota, present_period) = (present.next(), present.next());
        cpu.quota = quota.or(present_quota.and_then(Result::ok));
        let present_period = present_period.and_then(|number| u64::try_from(number.ok()?).ok());
        cpu.period = period.or(present_period);
        Ok(())
    }
}

/// Ends a scope on cgroup v2, if this needs no request: systemd notices that the cgroup is empty, removes the directory
/// and frees the unit. If someone else removed the directory before, the unit would stay active. Returns false if the
/// unit is to be stopped.
pub(crate) fn leave(location: &Location, unit: &Unit) -> Result<bool, Error> {
    let Some(place) = location.unified.as_ref().filter(|_| location.is_unified()) else {
        return Ok(false);
    };
    if !early::is_visible(&unit.instance) || !is_attentive(place, unit) {
        return Ok(false);
    }
    if !is_loaded(&unit.instance, &unit.name) {
        Cgroup::delete_directories(location)?;
        // systemd may have received the request of a killed start meanwhile, and does not see the end then.
        return Ok(!is_loaded(&unit.instance, &unit.name));
    }
    let cgroup = Cgroup::open_rest(location)?;
    // Without a directory, the unit has ended and will be freed, or has failed.
    let Some(directory) = cgroup.only_unified() else { return Ok(false) };
    let ended = || -> Result<bool, Error> {
        if directory.read_key("cgroup.events", "populated")? == 0 {
            return Ok(true);
        }
        cgroup.kill_all(SIGKILL)?;
        wait::event(directory, "populated", 0, Deadline::after(wait::DYING))
    };
    match ended() {
        // systemd has removed the directory meanwhile.
        Err(error) if error.is_gone() => Ok(true),
        result => result,
    }
}

/// Returns whether the unit's systemd runs, and is known to notice the end of a scope during a `daemon-reload`, too: it
/// does since version 250. Since 251 the host's systemd marks a scope whose job is done, and other units.
fn is_attentive(place: &Place, unit: &Unit) -> bool {
    let is_marked = |path: &str| {
        let has = |name| rustix::fs::getxattr(path, name, &mut [0; 64][..]).is_ok();
        has(c"user.delegate") || has(c"user.invocation_id")
    };
    if let Instance::User { cgroup, .. } = &unit.instance {
        let top = format!("{}{cgroup}", place.mount());
        let own = Directory::open(&format!("{top}/init.scope"));
        return is_marked(&top)
            && own.is_ok_and(|own| matches!(own.read_key("cgroup.events", "populated"), Ok(1)));
    }
    let slice = place.ancestors().last();
    let own = || Location::of_process(&Hierarchies::detect().ok()?, getpid()).ok()?.unified;
    is_marked(place.directory())
        || slice.is_some_and(is_marked)
        || own().is_some_and(|own| is_marked(own.directory()))
}

/// Stops the unit at `location`. First kills its processes: systemd would send SIGTERM and wait longer than callers of
/// `delete` do. If a user's systemd is no longer running, its units are already stopped.
pub(crate) fn stop(location: &Location, unit: &Unit) -> Result<(), Error> {
    match Cgroup::open_rest(location)?.kill_all(SIGKILL) {
        Err(error) if !error.is_gone() => return Err(error),
        _ => {}
    }
    match stop_unit(unit) {
        Err(Error::Systemd(error)) if unit.instance.is_user() && error.is_nobody() => Ok(()),
        result => result,
    }
}

/// Calls systemd to move a process into the cgroup of a unit.
pub(crate) fn attach(unit: &Unit, pid: i32) -> Result<(), Error> {
    Ok(Manager::connect(unit)?.attach(unit, pid.unsigned_abs())?)
}

/// Stops a unit whose processes have all exited.
pub(crate) fn stop_unit(unit: &Unit) -> Result<(), Error> {
    Ok(Manager::connect(unit)?.stop(unit)?)
}

/// Stops the scope `name` of the host's systemd, if its directory was removed after systemd had received the request.
pub(crate) fn stop_removed(name: &str) -> Result<(), Error> {
    match is_loaded(&Instance::System, name) {
        true => {
            stop_unit(&Unit { name: name.into(), slice: String::new(), instance: Instance::System })
        }
        false => Ok(()),
    }
}

/// Returns the task limit, if there is one.
fn task_limit(resources: &Resources) -> Option<i64> {
    resources.pids.as_ref()?.limit.map(limits::task_limit).filter(|limit| *limit > 0)
}

fn asks_for_idle(resources: &Resources) -> bool {
    resources.cpu.as_ref().is_some_and(|cpu| cpu.idle == Some(1))
        || resources.unified.contains_key("cpu.idle")
}

fn knows_idle(manager: &mut Manager, unit: &Unit, resources: &Resources) -> Result<bool, Error> {
    Ok(asks_for_idle(resources) && manager.version(unit)? >= IDLE_SINCE)
}
