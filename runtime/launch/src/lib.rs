//! Runs a plan, in the parent process and in init.
//!
//! [`start`] runs the plan's list of steps for the parent up to the clone, which creates init (`dayfly-init`). [`Born`]
//! runs the rest, up to the commit and beyond; between its parts, the caller records init. Init runs its own list of
//! steps, and then becomes the container's process. If a step fails, init is killed and the cgroup removed before the
//! error is returned: a failed launch leaves nothing behind.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod born;
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
mod restored;
mod seal;
mod starter;

use alloc::vec::Vec;

use init::{OwnedSlots, Place};
use plan::Plan;

pub use born::{Born, start};
pub use cgroup_kill::kills_newborn;
pub use error::Error;
pub use hooks::{Manner, run_all as run_hooks};
pub use id_helper::map_ids;
pub use init::fault;
pub use init::hooks::{HookFailure, wait};
pub use launched::{Launched, Pending, PendingScope};
pub use mounts::Mounts;
pub use network::Network;
pub use restored::wait_in_place;
pub use seal::{SEALED, seal_self};
pub use starter::{
    PROMPT, Start, Waiter, Withdrawal, begin, finish, reach, start as start_waiting, waiter,
    withdraw,
};

/// Returns an empty table of the plan's slots.
fn slots_of(plan: &Plan) -> OwnedSlots {
    let places: Vec<Place> = (0..plan.slots).map(|_| Place::default()).collect();
    OwnedSlots::new(places.leak())
}
