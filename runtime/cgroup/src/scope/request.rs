//! Creates the cgroup of a scope, before or after systemd has the scope.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::process::Pid;
use spec::resources::{Pids, Resources};
use sys::clone::HOLDER;

use super::early::{self, ScopeJob};
use super::{JOB_TIMEOUT, SIGKILL, knows_idle, properties, task_limit};
use crate::devices::Rule;
use crate::systemd::{self, Instance, Manager, Property, Unit};
use crate::wait::{self, Deadline};
use crate::{Cgroup, Error, Location, processes};

/// A request for a scope that is not sent yet.
#[derive(Debug)]
pub struct ScopeRequest<'a> {
    location: &'a Location,
    unit: &'a Unit,
    /// With the CPU quota that systemd will set.
    resources: Cow<'a, Resources>,
    rules: Vec<Rule>,
    /// The properties from annotations and limits, without those that any scope has.
    properties: Vec<Property>,
    manager: Manager,
}

impl<'a> ScopeRequest<'a> {
    /// Connects to the systemd of the unit at `location`. `resources` are as in [`Cgroup::create`], and so is the `program`
    /// of other methods. `properties` are additional properties of the unit. Properties derived from `resources` override
    /// them. `dialled` is a connection of [`Manager::dial`], which is used if the unit is one of the host's systemd.
    ///
    /// # Errors
    /// [`Error::Systemd`]; [`Error::Invalid`] and others for invalid limits.
    pub fn of(
        location: &'a Location,
        resources: &'a Resources,
        properties: &[Property],
        dialled: Option<OwnedFd>,
    ) -> Result<Self, Error> {
        let unit = location.unit.as_ref().ok_or(systemd::Error::Absent)?;
        let unified = location.is_unified();
        if !unified && !resources.unified.is_empty() {
            return Err(Error::UnifiedOnV1);
        }
        let rules = Rule::list(&resources.devices)?;
        let resources = properties::rounded(resources);
        let mut manager = match (&unit.instance, dialled) {
            (Instance::System, Some(socket)) => Manager::on(socket),
            _ => Manager::connect(unit)?,
        };
        let idles = knows_idle(&mut manager, unit, &resources)?;
        let of_resources = properties::of_resources(&resources, unified, idles)?;
        let properties = [properties, &of_resources].concat();
        Ok(Self { location, unit, resources, rules, properties, manager })
    }

    /// Returns the socket of the connection to systemd.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.manager.socket()
    }

    /// Makes the scope's directory, if this is possible before systemd has the scope: there is a bus, the directory
    /// of the slice exists, and systemd has no unit of that name, whose end would be the end of the new scope, too.
    pub fn make_early(&self) -> Option<Cgroup> {
        // On systemd's own socket, the holder would take the end of another unit's job for that of its own.
        self.manager.is_on_bus().then(|| early::make(self.location, self.unit))?
    }

    /// Returns whether systemd has a unit of the scope's name.
    pub fn is_known(&self) -> bool {
        early::is_loaded(&self.unit.instance, &self.unit.name)
    }

    /// Sends the request for an early scope, and sets its limits. systemd will move the process `holder` to the scope. It
    /// must not exit until the job is done.
    ///
    /// # Errors
    /// Those of [`Cgroup::create`]; [`Error::Systemd`].
    pub fn send(
        mut self,
        cgroup: &Cgroup,
        holder: Pid,
        program: Option<BorrowedFd<'_>>,
    ) -> Result<ScopeJob, Error> {
        let list = self.list(holder);
        let job = ScopeJob::request(self.manager, self.unit.clone(), list)?;
        let limited = cgroup.set_limits(&self.resources);
        match limited.and_then(|()| set_devices(cgroup, self.unit, &self.rules, program, true)) {
            Ok(()) => Ok(job),
            Err(error) => {
                // If systemd has started the scope, it would wait for an init in it, which ignores SIGTERM.
                job.cancel(|| drop(cgroup.kill_all(SIGKILL)));
                Err(error)
            }
        }
    }

    /// Sets the limits of the request's scope.
    ///
    /// # Errors
    /// Those of [`Cgroup::create`].
    pub fn limit(&self, cgroup: &Cgroup) -> Result<(), Error> {
        cgroup.set_limits(&self.resources)
    }

    /// Creates the cgroup like [`Cgroup::create`]: systemd first creates the scope for the process `holder`, which must
    /// not exit until the container's init is in the cgroup; after that, see [`Cgroup::without_holder`].
    ///
    /// # Errors
    /// Those of [`Cgroup::create`]; [`Error::Systemd`]. On failure, everything created so far is removed.
    pub fn create(mut self, holder: Pid, program: Option<BorrowedFd<'_>>) -> Result<Cgroup, Error> {
        let rest = Cgroup::open_rest(self.location)?;
        await_unused(&rest)?;
        let list = self.list(holder);
        // systemd may still be about to remove the scope of an earlier container. It is stopped before the request, which
        // is sent twice if systemd is executed again: then the earlier scope would be taken for the new one.
        if rest.unified_path().is_some() && self.location.is_unified() {
            self.manager.stop(self.unit)?;
        }
        self.manager.start(self.unit, &list)?;
        let mut cgroup = Cgroup::of_started(self.unit);
        let mut resources = self.resources.into_owned();
        cgroup.make(self.location, &resources)?;
        if let Some(limit) = task_limit(&resources) {
            // The holder counts as a task, so the limit is higher by one while the holder exists.
            resources.pids = Some(Pids { limit: Some(limit.saturating_add(1)) });
        }
        cgroup.set_limits(&resources)?;
        set_devices(&cgroup, self.unit, &self.rules, program, false)?;
        Ok(cgroup)
    }

    /// Returns all properties of the unit.
    fn list(&mut self, holder: Pid) -> Vec<Property> {
        let pid = holder.as_raw_nonzero().get().unsigned_abs();
        let mut list = systemd::of_scope(self.unit, pid, self.location.is_unified());
        list.append(&mut self.properties);
        list
    }
}

/// Sets the device rules. A user's are ignored: only the host's root can load device programs.
fn set_devices(
    cgroup: &Cgroup,
    unit: &Unit,
    rules: &[Rule],
    program: Option<BorrowedFd<'_>>,
    is_new: bool,
) -> Result<(), Error> {
    let set = cgroup.set_devices(rules, program, is_new);
    if unit.instance.is_user() { Ok(()) } else { set }
}

/// Checks that the scope's cgroup has no processes, if there is one. Waits for the holder of an earlier container, which
/// systemd may move there at any time.
fn await_unused(rest: &Cgroup) -> Result<(), Error> {
    let is_holder = |pid: &Pid| {
        let name = sys::fs::read_proc_text(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.is_ok_and(|name| name.trim_end().as_bytes() == HOLDER.to_bytes())
    };
    let deadline = Deadline::after(JOB_TIMEOUT);
    loop {
        let error = match rest.check_unused() {
            Err(error) if !error.is_gone() => error,
            _ => return Ok(()),
        };
        let Some(directory) = rest.only_unified() else { return Err(error) };
        let outlived = || -> Result<bool, Error> {
            let are_holders = processes::all(directory)?.iter().all(is_holder);
            Ok(are_holders && wait::event(directory, "populated", 0, deadline)?)
        };
        match outlived() {
            Ok(true) => {}
            Ok(false) => return Err(error),
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
    }
}
