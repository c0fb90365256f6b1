//! A launch in two halves: [`start`] creates init, [`Born`] admits, records and commits it.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use core::time::Duration;

use cgroup::Cgroup;
use init::fault::{self, Place};
use init::hooks::wait;
use plan::step::{ParentStep, Slot};
use plan::{Labelled, Plan, ResctrlPlan};
use rustix::fd::{AsFd, OwnedFd};
use sys::clone::Child;
use trace::{Failed, Tracer};

use crate::descriptors::Raised;
use crate::network::Network;
use crate::parent::{Parent, no_child};
use crate::{Error, Launched, Pending, PendingScope, cgroup_kill, slots_of};

/// The time that a killed init has to exit.
const DYING: Duration = Duration::from_secs(10);

/// Runs the parent's steps of a plan up to the clone, which creates init. `given` are the descriptors that the caller has
/// opened for the plan's well-known slots; `network` is the network namespace, if the caller has started its creation;
/// `bundle` is the working directory of hooks on the host. The plan is `'static`, because an init that shares this
/// process's memory may read the plan after the launch.
///
/// # Errors
/// The error of the step that failed. Everything that the launch had created is removed.
pub fn start<'a>(
    plan: &'static Plan,
    given: Vec<(Slot, OwnedFd)>,
    network: Option<Network>,
    bundle: &'a CStr,
    tracer: &'a Tracer,
) -> Result<Born<'a>, Error> {
    let raised = Raised::for_plan(plan);
    let slots = slots_of(plan);
    for (slot, fd) in given {
        slots.set(slot, fd);
    }
    let parent = Parent { network, ..Parent::new(plan, slots, tracer, bundle) };
    let mut born = Born { parent, next: 0, _raised: raised };
    born.run_while(|parent, _| parent.child.is_none())?;
    match born.parent.child {
        Some(_) => Ok(born),
        None => {
            Err(born.fail(sys::Error::new("launch", "plan without a clone", sys::Errno::CHILD)))
        }
    }
}

/// An init that exists, and that runs no program of the container before the commit. If this value is dropped before,
/// init is killed, and everything that the launch has created is removed.
#[derive(Debug)]
pub struct Born<'a> {
    parent: Parent<'a>,
    /// The number of the next step.
    next: usize,
    /// The limit on open descriptors.
    _raised: Option<Raised>,
}

impl Born<'_> {
    /// Returns init's process.
    ///
    /// # Errors
    /// ECHILD if the launch has failed.
    pub fn init(&self) -> Result<&Child, sys::Error> {
        self.parent.child.as_ref().ok_or_else(no_child)
    }

    /// Admits init, and calls `record`, which records it; returns what `record` returns.
    ///
    /// # Errors
    /// That of `record`, or of a step that failed; ECHILD if the plan records nothing. The launch has ended.
    pub fn record<T>(
        &mut self,
        mut record: impl FnMut(&Child) -> Result<T, sys::Error>,
    ) -> Result<T, Error> {
        self.run_while(|_, step| !matches!(step, ParentStep::RecordBirth))?;
        let mut recorded = None;
        if let Some(step) = self.parent.plan.parent.get(self.next) {
            self.run(step, &mut |parent| {
                recorded = Some(record(parent.child.as_ref().ok_or_else(no_child)?)?);
                Ok(())
            })?;
        }
        recorded.ok_or_else(|| self.fail(no_child()))
    }

    /// Runs the hooks on the host. Waits until init is ready, unless the plan leaves that out.
    ///
    /// # Errors
    /// That of the step that failed. The launch has ended.
    pub fn prepare(&mut self) -> Result<(), Error> {
        self.run_while(|_, step| !matches!(step, ParentStep::Commit))
    }

    /// Lets init go on. Afterwards it runs its program, is about to execute it, or waits for `start`. `forked` is the
    /// process that runs as the program, if a template has forked it.
    ///
    /// # Errors
    /// That of the step that failed. Everything that the launch had created is removed.
    pub fn commit(mut self, forked: Option<OwnedFd>) -> Result<Launched, Error> {
        self.parent.forked = forked;
        self.run_while(|_, _| true)?;
        self.parent.return_to_own().map_err(|error| self.fail(error))?;
        let Parent {
            plan,
            child,
            channel,
            network,
            cgroup,
            scope,
            holder,
            rootfs,
            program_since,
            ..
        } = &mut self.parent;
        let child = child.take().ok_or_else(no_child)?;
        let mut cgroup = cgroup.take();
        cgroup.iter_mut().for_each(Cgroup::keep);
        let scope = PendingScope::of(plan, scope.take(), holder.take(), cgroup);
        let pending = Pending::of(plan, channel.take(), network.take());
        let rootfs = rootfs.take().map(rootfs::Assembly::finish);
        Ok(Launched { child, program_since: *program_since, pending, scope, rootfs })
    }

    /// Runs steps as long as `goes_on` returns true.
    fn run_while(&mut self, goes_on: fn(&Parent<'_>, &ParentStep) -> bool) -> Result<(), Error> {
        let plan = self.parent.plan;
        while let Some(step) = plan.parent.get(self.next)
            && goes_on(&self.parent, step)
        {
            self.run(step, &mut |parent| parent.step(step))?;
        }
        Ok(())
    }

    /// Runs the next step, by calling `body`.
    fn run(
        &mut self,
        step: &'static ParentStep,
        body: &mut dyn FnMut(&mut Parent<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { parent, next: number, .. } = self;
        let start = parent.tracer.clock();
        let result = match fault::strike(Place::Parent, *number) {
            Ok(()) => body(parent),
            Err(errno) => {
                let label = step.label();
                Err(sys::Error::new(label.name, label.object, errno).into())
            }
        };
        let errno = result.as_ref().err().map_or(0, Failed::errno);
        parent.tracer.step(parent.plan, *number, start, errno);
        *number += 1;
        result.map_err(|error| {
            let error = self.parent.told_of_step(step, error);
            self.fail(error)
        })
    }

    /// Ends a launch that has failed with this error, and returns the reason. Kills init, and removes everything that the
    /// launch has created.
    #[cold]
    pub fn fail(&mut self, error: impl Into<Error>) -> Error {
        let parent = &mut self.parent;
        let error = parent.reason_of(error.into());
        // If the launch failed before the clone, this process is still in the namespaces that it entered for init.
        let _ = parent.return_to_own();
        parent.return_to_own_oom_score();
        let console = parent.connected_console();
        self.kill();
        let has_begun = self.parent.begun.is_some_and(|begun| begun.load(Ordering::Acquire));
        let cgroup = self.parent.cgroup.as_ref().filter(|_| !has_begun);
        let cgroup = cgroup.and_then(|cgroup| cgroup.dir_fd());
        let plan = self.parent.plan;
        let reason = cgroup_kill::reason_of(error, plan, cgroup, console).of_plan(plan);
        self.remove();
        reason
    }

    fn kill(&mut self) {
        if let Some(child) = self.parent.child.take() {
            let _ = sys::signal::send(child.pidfd.as_fd(), 9);
            // An init whose PID namespace has a process that a template does not reap does not exit.
            if sys::pidfd::wait_for_exit(&child.pidfd, DYING) {
                let _ = wait(&child.pidfd);
            }
        }
    }

    fn remove(&mut self) {
        self.parent.give_up_scope();
        self.parent.cgroup = None;
        if let Some(ResctrlPlan::Create { group, .. }) = &self.parent.plan.resctrl {
            let _ = group.remove();
        }
    }
}

impl Drop for Born<'_> {
    fn drop(&mut self) {
        if self.parent.child.is_some() {
            self.kill();
            self.remove();
        }
    }
}
