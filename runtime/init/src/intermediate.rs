//! The intermediate: a process that creates init as the parent's child (CLONE_PARENT), hands init
//! over and exits. An intermediate is used
//!
//! - if new namespaces must belong to a joined user namespace: clone3(2) assigns them to the caller's user namespace,
//!   so the caller must join the intended one first;
//! - if init is created in a PID namespace with other processes: these processes could stop init before its first
//!   instruction, and see everything that init inherited. So the intermediate, which is invisible to them, runs init's
//!   first steps and closes descriptors that init does not use (`plan/src/newborn.rs`). If no memory limit can apply,
//!   the intermediate shares the parent's memory, which costs less than a copy. The parent then waits for the
//!   intermediate's exit.
//!
//! setns(2) of a PID namespace affects the caller's future children only. If a user namespace is joined as well, its
//! processes may not trace a process that last called execve(2) outside of it, so the intermediate need not hide. The
//! parent then joins the PID namespace before it clones the intermediate, and afterwards sets the PID namespace of its
//! children back (`enter_pid_namespace` in launch/src/parent/clone.rs).

use core::sync::atomic::Ordering;

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use sys::clone::{Child, Clone, CloneFlags, clone3};
use sys::defence::{Defence, is_off};

use crate::fault::{Place, strike};
use crate::job::Job;
use crate::slots::Slots;
use crate::step::{Intermediate, Slot};
use crate::{actor, clock};

/// The step that fails if the cgroup's PID limit is too low for both the intermediate and init.
pub const CLONE: &str = "clone by intermediate";

/// Runs the intermediate; returns only in init.
pub(crate) fn pass_on(intermediate: Intermediate, job: &Job<'_>, channel: &OwnedFd) {
    let Job { slots, time, flags, .. } = job;
    // SAFETY: the relay was open at the clone, and this process has its own descriptor table, in which nothing else owns
    // or uses it.
    let relay = job.relay.map(|relay| unsafe { OwnedFd::from_raw_fd(relay.as_raw_fd()) });
    let parent = relay.as_ref().unwrap_or(channel);
    let joined =
        strike(Place::Intermediate, 0).and_then(|()| join(intermediate, slots)).and_then(|()| {
            match time.filter(|_| intermediate.time) {
                Some(time) => clock::enter(time, slots).map_err(|refused| refused.errno()),
                None => Ok(()),
            }
        });
    if let Err(errno) = joined {
        refuse(parent, b'u', errno);
    }
    if !actor::go_ahead(job, parent, intermediate.steps) {
        sys::start::exit(1);
    }
    let stripped = match intermediate.strips.filter(|_| !is_off(Defence::BareBirth)) {
        // SAFETY: this process, and the init that it creates, use only the descriptors that are kept.
        Some(first) => unsafe { sys::exec::close_all_but(first, job.kept) },
        None => Ok(()),
    };
    if let Err(errno) = strike(Place::Intermediate, 1).and(stripped) {
        refuse(parent, b'c', errno);
    }
    match clone3(*flags | CloneFlags::PARENT, None) {
        Ok(Clone::Child) => {
            drop(relay);
            sys::stack::forget();
        }
        Ok(Clone::Parent(child)) => {
            match strike(Place::Intermediate, 2).and_then(|()| hand_over(job, parent, &child)) {
                Ok(()) => sys::start::exit(0),
                Err(errno) => refuse(parent, b'h', errno),
            }
        }
        Err(errno) => refuse(parent, b'c', errno),
    }
}

fn hand_over(job: &Job<'_>, parent: &OwnedFd, child: &Child) -> Result<(), Errno> {
    if job.relay_shares() {
        job.made.store(child.pid.as_raw_nonzero().get(), Ordering::Relaxed);
        return Ok(());
    }
    sys::fdpass::send(parent, b"P", child.pidfd.as_fd())
}

fn join(intermediate: Intermediate, slots: &Slots) -> Result<(), Errno> {
    let Intermediate { first, user, pid, .. } = intermediate;
    let kinds = [(user, CloneFlags::NEWUSER), (pid, CloneFlags::NEWPID)];
    let kinds = kinds.into_iter().filter_map(|(slot, kind)| Some((slot?, kind)));
    for (slot, kind) in first.into_iter().flatten().chain(kinds) {
        let namespace = slots.get(slot).ok_or(Errno::BADF)?;
        match slot {
            Slot::CONTAINER => sys::ns::join_process(namespace, kind)?,
            _ => sys::ns::join(namespace, kind)?,
        }
    }
    Ok(())
}

fn refuse(parent: &OwnedFd, step: u8, errno: Errno) -> ! {
    let [a, b, c, d] = errno.raw_os_error().to_ne_bytes();
    let _ = rustix::net::send(parent, &[step, a, b, c, d], SendFlags::NOSIGNAL);
    sys::start::exit(1)
}

/// Returns the failed step of an intermediate and the errno, from its message.
pub fn refusal(said: &[u8]) -> Option<(&'static str, Errno)> {
    let [step, a, b, c, d] = *said else { return None };
    let step = match step {
        b'u' => "join namespaces",
        b'c' => CLONE,
        _ => "hand over from intermediate",
    };
    Some((step, Errno::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]))))
}
