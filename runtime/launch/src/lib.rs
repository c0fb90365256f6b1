//! Runs a plan, in the parent process and in init.
//!
//! [`launch`] runs the plan's list of steps for the parent. One of these steps, the clone, creates init
//! (`dayfly-init`). Init runs its own list of steps, and then becomes the container's process. If a step fails, init is
//! killed and the cgroup removed before the error is returned: a failed launch leaves nothing behind.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod cgroup_kill;
mod clock;
mod descriptors;
mod error;
mod holder;
mod hooks;
mod id_helper;
mod intermediate;
mod launched;
mod mounts;
mod net_devices;
mod network;
mod parent;
mod seal;
mod starter;

use alloc::vec::Vec;
use core::ffi::CStr;
use core::time::Duration;

use init::{OwnedSlots, Place, Slots};
use plan::step::{ParentStep, Slot};
use plan::{Plan, ResctrlPlan};
use rustix::fd::{AsFd, OwnedFd};
use trace::Tracer;

pub use cgroup_kill::kills_newborn;
pub use error::Error;
pub use hooks::{Manner, run_all as run_hooks};
pub use id_helper::map_ids;
pub use init::fault;
pub use init::hooks::{HookFailure, wait};
pub use launched::{Launched, Pending};
pub use mounts::Mounts;
pub use network::Network;
pub use parent::{OnTurn, Turn};
pub use seal::{SEALED, seal_self};
pub use starter::{
    PROMPT, Start, Waiter, Withdrawal, begin, finish, reach, start, waiter, withdraw,
};

/// Descriptors that the caller opened for the plan's well-known slots.
#[derive(Debug, Default)]
pub struct Given {
    /// For [`Slot::START`]: a listening socket.
    pub start: Option<OwnedFd>,
    /// For [`Slot::CONSOLE`]: a connected socket.
    pub console: Option<OwnedFd>,
    /// For [`Slot::CONTAINER`]: the pidfd of the container's init, for an exec.
    pub container: Option<OwnedFd>,
    /// For [`Slot::STAND_IN`]: init's end of the socket of a template's child.
    pub stand_in: Option<OwnedFd>,
    /// For [`Slot::REQUESTS`]: the listening socket of a template.
    pub requests: Option<OwnedFd>,
    /// For [`Slot::BLANK`]: the blank mount namespace.
    pub blank: Option<OwnedFd>,
    /// For [`Slot::DEVICES`]: the BPF program with the cgroup's device rules.
    pub devices: Option<OwnedFd>,
    /// The network namespace, if the caller has started its creation.
    pub network: Option<Network>,
}

/// The time that a killed init has to exit.
const DYING: Duration = Duration::from_secs(10);

/// Returns a duplicate of the connection to the console socket, if a step of the plan made this connection.
#[cold]
fn connected_console(plan: &Plan, slots: &Slots) -> Option<OwnedFd> {
    let connects = plan.parent.iter().any(|step| matches!(step, ParentStep::ConnectConsole { .. }));
    let console = slots.get(Slot::CONSOLE).filter(|_| connects)?;
    rustix::io::fcntl_dupfd_cloexec(console, 3).ok()
}

/// Returns an empty table of the plan's slots.
fn slots_of(plan: &Plan) -> OwnedSlots {
    let places: Vec<Place> = (0..plan.slots).map(|_| Place::default()).collect();
    OwnedSlots::new(places.leak())
}

/// Runs the parent's steps of a plan. Afterwards init runs its program, is about to execute it, or waits for `start`.
/// `bundle` is the working directory of hooks on the host. `on_turn` is called at each [`Turn`]. The plan is `'static`,
/// because an init that shares this process's memory may read the plan after this function has returned.
///
/// # Errors
/// The error of the step that failed. Everything that the launch had created is removed.
pub fn launch<'a>(
    plan: &'static Plan,
    given: Given,
    bundle: &'a CStr,
    tracer: &'a Tracer,
    on_turn: &'a mut OnTurn<'a>,
) -> Result<Launched, Error> {
    let _raised = descriptors::Raised::for_plan(plan);
    let slots = slots_of(plan);
    for (slot, fd) in [
        (Slot::START, given.start),
        (Slot::CONSOLE, given.console),
        (Slot::CONTAINER, given.container),
        (Slot::STAND_IN, given.stand_in),
        (Slot::REQUESTS, given.requests),
        (Slot::BLANK, given.blank),
        (Slot::DEVICES, given.devices),
    ] {
        if let Some(fd) = fd {
            slots.set(slot, fd);
        }
    }
    let mut parent = parent::Parent {
        network: given.network,
        ..parent::Parent::new(plan, &slots, tracer, bundle, on_turn)
    };
    let result = parent.run();
    // If the launch failed before the clone, this process is still in the namespaces that it entered for init.
    let back = parent.return_to_own();
    let result = result.and(back.map_err(Error::from));
    if result.is_err() {
        parent.return_to_own_oom_score();
    }
    let console = result.is_err().then(|| connected_console(plan, &slots)).flatten();
    let parent::Parent { child, network, cgroup, holder, channel, program_since, rootfs, .. } =
        parent;
    drop(slots);
    let rootfs = rootfs.map(rootfs::Assembly::finish);
    match (result, child) {
        (Ok(()), Some(child)) => {
            if let Some(mut cgroup) = cgroup {
                cgroup.keep();
            }
            let pending = Pending::of(plan, channel, network);
            Ok(Launched { child, program_since, pending, rootfs })
        }
        (result, child) => {
            if let Some(child) = child {
                let _ = sys::signal::send(child.pidfd.as_fd(), 9);
                // An init whose PID namespace has a process that a template does not reap does not exit.
                if sys::pidfd::wait_for_exit(&child.pidfd, DYING) {
                    let _ = wait(&child.pidfd);
                }
            }
            let missing = sys::Error::new("launch", "plan without a clone", sys::Errno::CHILD);
            let error = result.err().unwrap_or(Error::Parent(missing));
            let error = cgroup_kill::reason_of(
                error,
                plan,
                cgroup.as_ref().and_then(|cgroup| cgroup.dir_fd()),
                console,
            )
            .of_plan(plan);
            drop(holder);
            drop(cgroup);
            if let Some(ResctrlPlan::Create { group, .. }) = &plan.resctrl {
                let _ = group.remove();
            }
            Err(error)
        }
    }
}
