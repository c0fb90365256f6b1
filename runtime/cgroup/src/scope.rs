//! The systemd cgroup driver: a container's cgroup as a transient scope unit, created, changed and stopped through
//! systemd.
//!
//! systemd creates a scope around a process and removes it with its last process, so the launcher keeps a process in
//! the scope until init has joined it. The rest of this crate works on the scope's directory as on any other cgroup.
//! Only creation, removal and limits go through systemd, since systemd would otherwise undo changes at the next
//! `daemon-reload`.
//!
//! A user's own systemd instance does the same below the cgroup that the host's systemd has delegated to it. For
//! operations for which the user lacks write permission, this module calls that instance.

pub(crate) mod properties;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::process::Pid;
use spec::resources::{Cpu, Pids, Resources};
use systemd::{Instance, Manager, Property, Unit};

use self::properties::IDLE_SINCE;
use crate::devices::Rule;
use crate::location::clean;
use crate::v2::limits;
use crate::{Cgroup, Controller, Error, Hierarchies, Location, v1};

const SIGKILL: i32 = 9;

/// Returns the systemd instance of the user with this DBUS_SESSION_BUS_ADDRESS and XDG_RUNTIME_DIR, and asks it for its
/// cgroup.
///
/// # Errors
/// [`Error::UserOnV1`]; [`Error::Systemd`] if neither leads to a bus, or the call fails; [`Error::BadPath`] if its
/// cgroup path is invalid.
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
    /// Returns the location of a unit's cgroup. Nothing is created.
    pub fn of_unit(hierarchies: &Hierarchies, unit: Unit) -> Self {
        Self { unit: Some(unit.clone()), ..Self::at(hierarchies, &unit.path()) }
    }
}

impl Cgroup {
    /// Creates the cgroup of a unit, like [`Cgroup::create`]: systemd creates the scope around the process `holder`,
    /// which must stay until the container's init is in the cgroup, and then [exit](Cgroup::without_holder).
    /// `properties` are additional properties of the unit; properties derived from `resources` override them.
    ///
    /// # Errors
    /// As [`Cgroup::create`]; [`Error::Systemd`]. On failure, everything created is removed again.
    pub fn create_scope(
        location: &Location,
        resources: &Resources,
        program: Option<BorrowedFd<'_>>,
        properties: &[Property],
        holder: Pid,
    ) -> Result<Self, Error> {
        let Some(unit) = &location.unit else {
            return Self::create(location, resources, program);
        };
        let unified = location.is_unified();
        if !unified && !resources.unified.is_empty() {
            return Err(Error::UnifiedOnV1);
        }
        let rules = Rule::list(&resources.devices)?;
        match Self::open_rest(location)?.check_unused() {
            Err(error) if !error.is_gone() => return Err(error),
            _ => {}
        }
        let mut resources = properties::rounded(resources).into_owned();
        let mut manager = Manager::connect(unit)?;
        let idles = knows_idle(&mut manager, unit, &resources)?;
        let pid = holder.as_raw_nonzero().get().unsigned_abs();
        let mut list = systemd::of_scope(unit, pid, unified);
        list.extend_from_slice(properties);
        list.extend(properties::of_resources(&resources, unified, idles)?);
        manager.start(unit, &list)?;
        let mut cgroup = Self::of_started(unit);
        cgroup.make(location, &resources)?;
        if let Some(limit) = task_limit(&resources) {
            // The holder counts as a task, too.
            resources.pids = Some(Pids { limit: Some(limit.saturating_add(1)) });
        }
        cgroup.set_limits(&resources)?;
        match cgroup.set_devices(&rules, program, false) {
            // Only the host's root can load device programs.
            Err(_) if unit.instance.is_user() => {}
            result => result?,
        }
        Ok(cgroup)
    }

    /// Withdraws the extra task granted to the holder of a scope, after it has exited.
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

    /// Reports new limits to systemd before they are written. Returns the limits to write.
    pub(crate) fn set_unit(&self, unit: &Unit, resources: &Resources) -> Result<Resources, Error> {
        if let (Some(directory), Some(memory)) = (self.only_unified(), &resources.memory) {
            // systemd would not check this, and the kernel would kill the container.
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

    /// Adds the current quota to a period, and the current period to a quota: systemd's property combines both.
    fn complete_bandwidth(&self, cpu: &mut Cpu) -> Result<(), Error> {
        let quota = cpu.quota.filter(|quota| *quota != 0);
        let period = cpu.period.filter(|period| *period != 0);
        if quota.is_some() == period.is_some() {
            return Ok(());
        }
        let text = match self.only_unified() {
            Some(directory) => directory.read("cpu.max"),
            None => match v1::find(&self.legacy, Controller::Cpu) {
                Some(directory) => directory
                    .read("cpu.cfs_quota_us")
                    .and_then(|quota| Ok(quota + " " + &directory.read("cpu.cfs_period_us")?)),
                None => return Ok(()),
            },
        };
        let text = match text {
            Err(error) if error.errno == Errno::NOENT => return Ok(()),
            result => result?,
        };
        let mut present = text.split_whitespace().map(str::parse::<i64>);
        // `max` and -1 mean no quota.
        let (present_quota, present_period) = (present.next(), present.next());
        cpu.quota = quota.or(present_quota.and_then(Result::ok));
        let present_period = present_period.and_then(|number| u64::try_from(number.ok()?).ok());
        cpu.period = period.or(present_period);
        Ok(())
    }
}

/// Stops the unit at `location`. Its processes are killed first: systemd would send SIGTERM and wait longer than
/// callers of `delete` do. If a user's systemd is gone, so are its units.
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

/// Makes systemd move a process into the cgroup of a unit.
pub(crate) fn attach(unit: &Unit, pid: i32) -> Result<(), Error> {
    Ok(Manager::connect(unit)?.attach(unit, pid.unsigned_abs())?)
}

/// Stops a unit that has no processes left.
pub(crate) fn stop_unit(unit: &Unit) -> Result<(), Error> {
    Ok(Manager::connect(unit)?.stop(unit)?)
}

/// Returns the task limit, if any.
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
