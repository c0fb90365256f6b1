//! Namespaces that init inherits: the parent enters them before the clone and returns afterwards.
//!
//! With a new user namespace, these are the network, IPC, UTS and cgroup namespaces that are given by path. Most of
//! them belong to the host's user namespace, and cannot be joined from inside the container's. A parent that is root
//! only in a user namespace could not return, so an intermediate joins them (`init::intermediate`). The mount namespace
//! must be one that the container's user namespace owns, because init cannot mount in any other. Init joins it itself.

use alloc::format;

use alloc::vec::Vec;
use plan::step::Slot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sys::Context;
use sys::clone::CloneFlags;

use super::attempt::Attempt;
use super::{Parent, no_child};
use crate::Error;

impl Parent<'_> {
    /// Joins the namespace whose descriptor is in `slot`.
    pub(super) fn enter_namespace(&mut self, slot: Slot, kind: CloneFlags) -> Result<(), Error> {
        let name = name(kind)?;
        if kind == CloneFlags::NEWCGROUP {
            self.entrances = self.entrances_of_clone()?;
        }
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let path = format!("self/ns/{name}");
        let own = openat(proc, path.as_str(), flags, Mode::empty())
            .context("open", format!("/proc/{path}"))?;
        let target = self.slots.get(slot).ok_or_else(no_child)?;
        sys::ns::join(target, kind).context("setns", format!("{name} namespace"))?;
        self.own_namespaces.push((own, kind));
        Ok(())
    }

    /// Opens the files through which init will join its cgroup, before the parent enters another cgroup namespace. With
    /// the mount option nsdelegate, the kernel refuses moves across the border of a cgroup namespace. Since Linux 5.16,
    /// the kernel checks the namespace of the process that opened the file (`cgroup_procs_write_permission`).
    fn entrances_of_clone(&self) -> Result<Option<Vec<OwnedFd>>, Error> {
        Attempt::of(self.plan).map(|attempt| self.open_entrances(&attempt)).transpose()
    }

    /// Returns to the CPUs and namespaces that this process left for the clone: those of hooks, and of init in a second
    /// attempt, are this process's own. Goes on after an error, and returns the first one.
    pub(crate) fn return_to_own(&mut self) -> Result<(), sys::Error> {
        let cpus = self
            .own_cpus
            .take()
            .map_or(Ok(()), |own| own.set(None).context("sched_setaffinity", "own cpus"));
        let pid = self.own_pid_namespace.take().map(|own| (own, CloneFlags::NEWPID));
        let others = core::iter::from_fn(|| self.own_namespaces.pop());
        others.chain(pid).fold(cpus, |first, (own, kind)| {
            first.and(sys::ns::join(own.as_fd(), kind).context("setns", "own namespace"))
        })
    }
}

/// Returns the name of a namespace type in /proc/PID/ns.
fn name(kind: CloneFlags) -> Result<&'static str, sys::Error> {
    match kind {
        CloneFlags::NEWNET => Ok("net"),
        CloneFlags::NEWIPC => Ok("ipc"),
        CloneFlags::NEWUTS => Ok("uts"),
        CloneFlags::NEWCGROUP => Ok("cgroup"),
        _ => Err(sys::Error::new("setns", "a namespace of another kind", Errno::INVAL)),
    }
}
