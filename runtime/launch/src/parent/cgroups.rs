//! The parent's cgroup steps: the container's cgroup, and its resctrl group.

use cgroup::Cgroup;
use plan::step::Slot;
use plan::{CgroupPlan, ResctrlPlan};

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
            Some(CgroupPlan::Scope { location, resources, properties }) => {
                let program = self.slots.get(Slot::DEVICES);
                let holder = self.holder.insert(Holder::start()?).pid();
                Some(Cgroup::create_scope(location, resources, program, properties, holder)?)
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
        let cgroup = self.cgroup.as_ref().ok_or_else(no_child)?;
        let child = self.child.as_ref().ok_or_else(no_child)?;
        if !born_inside || self.is_not_born_inside {
            cgroup.add(child.pid.as_raw_nonzero().get())?;
        }
        self.holder = None;
        Ok(cgroup.without_holder(resources)?)
    }
}
