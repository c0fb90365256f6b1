//! The parent's cgroup steps: the container's cgroup, and its resctrl group.

use cgroup::{Cgroup, ScopeRequest};
use plan::step::{ScopeState, Slot};
use plan::{CgroupPlan, ResctrlPlan};
use rustix::io::fcntl_dupfd_cloexec;

use super::{Parent, no_child};
use crate::Error;
use crate::holder::Holder;

impl Parent<'_> {
    pub(super) fn enter_cgroup(&mut self) -> Result<(), Error> {
        self.cgroup = match &self.plan.cgroup {
            None => None,
            Some(CgroupPlan::Create { location, resources, as_user: true }) => {
                Some(Cgroup::create_as_user(location, resources)?)
            }
            Some(CgroupPlan::Create { location, resources, as_user: false }) => {
                let program = self.slots.get(Slot::DEVICES);
                Some(Cgroup::create(location, resources, program)?)
            }
            Some(CgroupPlan::Scope { location, resources, properties, early }) => {
                let bus = self.slots.get(Slot::BUS);
                let dialled = bus.and_then(|bus| fcntl_dupfd_cloexec(bus, 3).ok());
                let request = ScopeRequest::of(location, resources, properties, dialled)?;
                let made = if *early { request.make_early() } else { None };
                let holder = match &made {
                    Some(cgroup) => Holder::start_outside(&request, cgroup)?,
                    None => Holder::start()?,
                };
                let holder = self.holder.insert(holder).pid();
                let program = self.slots.get(Slot::DEVICES);
                Some(match made {
                    None => request.create(holder, program)?,
                    Some(cgroup) if cgroup.is_of_user() => {
                        self.request = Some(request);
                        cgroup
                    }
                    Some(cgroup) => {
                        self.scope = Some(request.send(&cgroup, holder, program)?);
                        cgroup
                    }
                })
            }
            Some(CgroupPlan::Join { location, .. }) => Some(match Cgroup::open(location) {
                Err(error) if error.is_gone() => match self.cgroup_of_init() {
                    Some(cgroup) => cgroup,
                    None => return Err(error.into()),
                },
                result => result?,
            }),
        };
        Ok(())
    }

    /// Returns the cgroup to which the container's init has moved, for an exec that requests no particular cgroup.
    pub(super) fn cgroup_of_init(&self) -> Option<Cgroup> {
        let Some(CgroupPlan::Join { location, or_that_of: Some(init) }) = &self.plan.cgroup else {
            return None;
        };
        Cgroup::open(&location.moved_to_by(*init)?).ok()
    }

    /// Selects the current cgroup of the container's init, if the plan's cgroup enables controllers for its children
    /// and so cannot contain processes. Returns whether it has selected that cgroup.
    pub(super) fn follows_init(&mut self) -> bool {
        let is_closed = self.cgroup.as_ref().is_some_and(Cgroup::hands_down);
        match self.cgroup_of_init().filter(|_| is_closed) {
            Some(cgroup) => {
                self.cgroup = Some(cgroup);
                true
            }
            None => false,
        }
    }

    pub(super) fn enter_resctrl(&self) -> Result<(), Error> {
        let pid = self.child.as_ref().ok_or_else(no_child)?.pid;
        match &self.plan.resctrl {
            None => {}
            Some(ResctrlPlan::Create { group, schemata }) => group.enter(schemata, pid)?,
            Some(ResctrlPlan::Join { group }) => group.join(pid)?,
        }
        Ok(())
    }

    /// Kills the holder of the scope, once init is in the cgroup in all hierarchies. An init that was not created there
    /// may not have moved itself yet, so the parent moves it first.
    pub(super) fn release_scope(&mut self, born_inside: bool) -> Result<(), Error> {
        let Some(CgroupPlan::Scope { resources, .. }) = &self.plan.cgroup else { return Ok(()) };
        self.send_request()?;
        let child = self.child.as_ref().ok_or_else(no_child)?;
        if !born_inside || self.is_not_born_inside {
            self.move_init(child.pid.as_raw_nonzero().get())?;
        }
        if let Some(scope) = &mut self.scope
            && !scope.has_started()?
        {
            return Ok(());
        }
        self.holder = None;
        let cgroup = self.cgroup.as_ref().ok_or_else(no_child)?;
        Ok(cgroup.without_holder(resources)?)
    }

    /// Sends the request for a user's early scope. Sent before the clone, which takes longer for a user, systemd's move of
    /// the holder would often begin first, and meanwhile the kernel creates no process.
    fn send_request(&mut self) -> Result<(), Error> {
        if let (Some(request), Some(cgroup), Some(holder)) =
            (self.request.take(), &self.cgroup, &self.holder)
        {
            self.scope = Some(request.send(cgroup, holder.pid(), None)?);
        }
        Ok(())
    }

    /// Moves init to the cgroup. systemd moves a user's process only to a scope that has started.
    pub(super) fn move_init(&mut self, pid: i32) -> Result<(), Error> {
        self.send_request()?;
        if self.cgroup.as_ref().is_some_and(Cgroup::is_of_user) {
            self.await_job()?;
        }
        Ok(self.cgroup.as_ref().map_or(Ok(()), |cgroup| cgroup.add(pid))?)
    }

    /// Waits for an early scope. Once it has started, its holder is killed.
    pub(super) fn await_scope(&mut self, state: ScopeState) -> Result<(), Error> {
        let Some(scope) = &mut self.scope else { return Ok(()) };
        let Some(CgroupPlan::Scope { resources, .. }) = &self.plan.cgroup else { return Ok(()) };
        let cgroup = self.cgroup.as_ref().ok_or_else(no_child)?;
        match state {
            ScopeState::Accepted => {
                scope.accepted(cgroup, resources)?;
                self.holder.iter_mut().try_for_each(Holder::await_closed)?;
            }
            ScopeState::Started => {
                self.await_job()?;
                self.holder = None;
            }
        }
        Ok(())
    }

    /// Waits until an early scope has started. Its holder keeps it.
    pub(super) fn await_job(&mut self) -> Result<(), Error> {
        let Some(CgroupPlan::Scope { resources, .. }) = &self.plan.cgroup else { return Ok(()) };
        if let (Some(scope), Some(cgroup)) = (&mut self.scope, &self.cgroup) {
            // The job is kept: a launch that fails later stops the unit.
            scope.started(cgroup, resources)?;
        }
        Ok(())
    }

    /// Withdraws the request for an early scope, and kills the holder.
    pub(crate) fn give_up_scope(&mut self) {
        let holder = self.holder.take();
        if let Some(scope) = self.scope.take() {
            scope.cancel(|| drop(holder));
        }
    }
}
