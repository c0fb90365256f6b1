//! A scope whose directory exists before systemd has the scope.
//!
//! systemd moves the scope's process to the scope, and the kernel makes this move wait for an RCU grace period, some
//! 10 ms. A start need not wait for it: it needs the cgroup, not the unit. systemd accepts a directory that exists.
//! The order of events, and what each makes safe:
//!
//! 1. dayfly makes the directory, and requests the scope.
//! 2. systemd *accepts*: the unit is loaded. systemd had no reason before to keep controllers enabled in the slice, and
//!    takes them away when a sibling's unit is freed; so limits are written again.
//! 3. systemd's *job* writes the limits again, those for which it has no property with its defaults; and it clears
//!    cgroup.subtree_control of the scope (until systemd 257). So a program that can write its own cgroup begins after
//!    the job. It moves the holder to the scope, and the job is done. dayfly or, after a `create`, the holder writes the
//!    limits again.
//!
//! The end belongs to systemd, which must see the empty cgroup: if someone else removed the directory before, the scope
//! would stay active for ever (`unit_check_cgroup_events` in systemd's cgroup.c, 252 to 262).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::BorrowedFd;
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;
use spec::resources::Resources;
use sys::Context;

use super::properties;
use crate::systemd::{Instance, Manager, Property, Unit};
use crate::{Cgroup, Error, Location};

/// The directory in which systemd has a file for each transient unit. systemd removes the file when it frees the unit,
/// after the unit's cgroup.
const TRANSIENT: &str = "transient";
/// A file that systemd always has. In a container that has only the host's bus, it is not visible, and so [`TRANSIENT`]
/// is not either.
const PRIVATE: &str = "private";

/// A scope that systemd has been asked for.
#[derive(Debug)]
pub struct ScopeJob {
    manager: Manager,
    unit: Unit,
    properties: Vec<Property>,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// The number of the call, which systemd has not answered.
    Requested(u32),
    /// The path of the job.
    Accepted(String),
    /// The scope has started.
    Started,
}

impl ScopeJob {
    /// Sends the request for a scope.
    pub(super) fn request(
        mut manager: Manager,
        unit: Unit,
        properties: Vec<Property>,
    ) -> Result<Self, Error> {
        // For the holder: see `init::holder`.
        rustix::fs::fcntl_setfl(manager.socket(), OFlags::NONBLOCK).context("fcntl", "D-Bus")?;
        let progress = Progress::Requested(manager.request_start(&unit, &properties)?);
        Ok(Self { manager, unit, properties, progress })
    }

    /// Returns the socket on which systemd reports the end of the job, once it has accepted the request.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.manager.socket()
    }

    /// Waits until systemd has accepted the request, and sets the limits again.
    ///
    /// # Errors
    /// [`Error::Systemd`]; those of [`Cgroup::create`].
    pub fn accepted(&mut self, cgroup: &Cgroup, resources: &Resources) -> Result<(), Error> {
        self.accept()?;
        cgroup.set_limits(&properties::rounded(resources))
    }

    /// Waits until the job is done, and sets the limits again.
    ///
    /// # Errors
    /// [`Error::Systemd`]; those of [`Cgroup::create`].
    pub fn started(&mut self, cgroup: &Cgroup, resources: &Resources) -> Result<(), Error> {
        if let Some(job) = self.accept()? {
            self.manager.started(&self.unit, &job)?;
            let _ = rustix::fs::fcntl_setfl(self.manager.socket(), OFlags::empty());
            self.progress = Progress::Started;
        }
        cgroup.set_limits(&properties::rounded(resources))
    }

    /// Returns whether the end of the job has been received already. If so, the socket may not be readable.
    ///
    /// # Errors
    /// [`Error::Systemd`]
    pub fn has_started(&mut self) -> Result<bool, Error> {
        match &self.progress {
            Progress::Requested(_) => Ok(false),
            Progress::Accepted(job) => Ok(self.manager.has_started(&self.unit, job)?),
            Progress::Started => Ok(true),
        }
    }

    /// Waits until systemd has accepted the request; returns the path of the job, unless it is done.
    fn accept(&mut self) -> Result<Option<String>, Error> {
        if let Progress::Requested(call) = self.progress {
            let job = self.manager.accepted(&self.unit, &self.properties, call)?;
            self.progress = Progress::Accepted(job);
        }
        match &self.progress {
            Progress::Accepted(job) => Ok(Some(job.clone())),
            Progress::Requested(_) | Progress::Started => Ok(None),
        }
    }

    /// Withdraws the request. `end_holder` is called once systemd does not move the holder any more.
    pub fn cancel(mut self, end_holder: impl FnOnce()) {
        // Without an answer, systemd knows no job to cancel yet; it handles calls in their order.
        let stopped = self.manager.request_stop(&self.unit);
        end_holder();
        if let Ok(call) = stopped {
            // A refused request has no unit to stop.
            let _ = self.manager.stopped(&self.unit, call);
        }
    }
}

/// See [`ScopeRequest::make_early`](super::ScopeRequest::make_early).
pub(super) fn make(location: &Location, unit: &Unit) -> Option<Cgroup> {
    let is_free = is_visible(&unit.instance) && !is_loaded(&unit.instance, &unit.name);
    is_free.then(|| Cgroup::make_below(location))?
}

/// Returns whether the files of this systemd are visible to this process.
pub(super) fn is_visible(instance: &Instance) -> bool {
    find(instance, PRIVATE) == Ok(())
}

/// Returns whether this systemd has a transient unit `name`, in any state.
pub(crate) fn is_loaded(instance: &Instance, name: &str) -> bool {
    find(instance, &format!("{TRANSIENT}/{name}")) != Err(Errno::NOENT)
}

fn find(instance: &Instance, file: &str) -> Result<(), Errno> {
    let directory = instance.directory().ok_or(Errno::NOENT)?;
    access(format!("{directory}/{file}"), Access::EXISTS)
}
