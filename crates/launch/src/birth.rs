//! What init is born with.

use alloc::vec::Vec;

use plan::Plan;
use plan::step::{Relay, TimeNamespace};
use rustix::fd::RawFd;
use sys::clone::CloneFlags;
use trace::Recorder;

use crate::slots::Slots;

/// What init works with. In shared memory it is read until init's exec, so that all of it stays for as
/// long as the process; descriptors are numbers, which mean init's own copies.
pub(crate) struct Birth {
    pub plan: &'static Plan,
    pub slots: &'static Slots,
    /// cgroup.procs of the hierarchies that init has to join itself.
    pub procs: Vec<RawFd>,
    /// Init's end of the channel, and the host actor's.
    pub channel: RawFd,
    pub host_end: RawFd,
    pub recorder: Option<Recorder>,
    /// Namespaces that a relay makes, from inside the user namespace of a slot.
    pub flags: CloneFlags,
    pub relay: Option<Relay>,
    /// Where the relay goes as well, if it is to.
    pub time: Option<&'static TimeNamespace>,
}
