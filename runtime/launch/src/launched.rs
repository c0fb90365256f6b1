//! The result of a launch.

use core::mem::ManuallyDrop;

use cgroup::{Cgroup, ScopeJob};
use plan::step::{InitStep, ParentStep};
use plan::{CgroupPlan, Plan};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use sys::clone::Child;

use crate::Error;
use crate::holder::Holder;
use crate::network::Network;
use crate::parent::await_message;
use init::channel::Message;

/// A launched container.
#[derive(Debug)]
pub struct Launched {
    /// The init process.
    pub child: Child,
    /// The time at which the program began, if the parent waited for its exec and the launch was traced.
    pub program_since: u64,
    /// The open channel to init, if the plan does not wait for exec.
    pub pending: Option<Pending>,
    /// The container's scope, if systemd has not finished its job.
    pub scope: Option<PendingScope>,
    /// Resources of the assembled root filesystem, if any.
    pub rootfs: Option<rootfs::Assembled>,
}

/// An init that the parent has allowed to continue, and that may not have executed its program yet.
#[derive(Debug)]
pub struct Pending {
    plan: &'static Plan,
    channel: OwnedFd,
    /// The network maker, which may still be running.
    network: Option<Network>,
}

impl Pending {
    /// Returns the channel to init after a plan has run, or `None` if the plan waits for exec or init waits for
    /// `start`.
    pub(crate) fn of(
        plan: &'static Plan,
        channel: Option<OwnedFd>,
        network: Option<Network>,
    ) -> Option<Self> {
        let heard = plan.parent.iter().any(|step| matches!(step, ParentStep::AwaitExec));
        let waits = plan.init.iter().any(|step| matches!(step, InitStep::AwaitStart));
        match heard || waits {
            true => None,
            false => Some(Self { plan, channel: channel?, network }),
        }
    }

    /// Waits until init has executed its program, or has exited.
    pub fn await_exec(&self) {
        // Uses poll(2), not recv(2): if init exits with unread messages, the kernel reports the error only once, and
        // `outcome` needs this report.
        let mut fds = [PollFd::new(&self.channel, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut fds, None) {}
    }

    /// Waits for exec and reaps the network maker, which has exited by then. Reaping it earlier
    /// would require a wake-up only for its exit.
    pub fn tidy(&mut self) {
        self.await_exec();
        self.network = None;
    }

    /// Returns `Ok` if init executed its program. Must be called after init's exit; `signal` is the signal that killed
    /// init, if any.
    ///
    /// # Errors
    /// The failure of init.
    pub fn outcome(self, signal: Option<i32>) -> Result<(), Error> {
        await_message(self.plan, &self.channel, &Message::Closed, || {
            Error::death(self.plan, signal)
        })
    }
}

/// A scope whose job systemd has not finished, although the program may run. If this process exits or drops this value,
/// the scope starts all the same: see `init::holder`.
#[derive(Debug)]
pub struct PendingScope {
    plan: &'static Plan,
    /// `None` once the end of the job is known.
    job: Option<ScopeJob>,
    holder: ManuallyDrop<Holder>,
    cgroup: Cgroup,
}

impl PendingScope {
    pub(crate) fn of(
        plan: &'static Plan,
        job: Option<ScopeJob>,
        holder: Option<Holder>,
        cgroup: Option<Cgroup>,
    ) -> Option<Self> {
        let holder = ManuallyDrop::new(holder?);
        Some(Self { plan, job: Some(job?), holder, cgroup: cgroup? })
    }

    /// Returns the socket that is readable when the job has ended; `None` if its end has been read already.
    pub fn socket(&mut self) -> Option<BorrowedFd<'_>> {
        // An error is reported by `started`.
        let job = self.job.as_mut()?;
        let has_started = job.has_started().unwrap_or(true);
        (!has_started).then(|| job.socket())
    }

    /// Waits until the job has ended, or until `child` has exited: the holder waits for the job of a container that has
    /// ended.
    ///
    /// # Errors
    /// The failure of the job; the limits cannot be set again.
    pub fn await_start(mut self, child: &Child) -> Result<(), Error> {
        if let Some(socket) = self.socket() {
            let mut fds = [
                PollFd::from_borrowed_fd(socket, PollFlags::IN),
                PollFd::new(&child.pidfd, PollFlags::IN),
            ];
            while let Err(Errno::INTR) = poll(&mut fds, None) {}
            let [job, _] = fds;
            if job.revents().is_empty() {
                return Ok(());
            }
        }
        self.started()
    }

    /// Ends the wait for a job that has ended: sets the limits again, and kills the holder.
    ///
    /// # Errors
    /// Those of [`PendingScope::await_start`].
    pub fn started(mut self) -> Result<(), Error> {
        if let (Some(mut job), Some(CgroupPlan::Scope { resources, .. })) =
            (self.job.take(), &self.plan.cgroup)
        {
            job.started(&self.cgroup, resources)?;
        }
        self.holder.end();
        Ok(())
    }
}

impl Drop for PendingScope {
    fn drop(&mut self) {
        // Without a holder, systemd does not notice that the scope has ended.
        if let (Some(job), true, Some(CgroupPlan::Scope { location, .. })) =
            (self.job.take(), self.holder.has_ended(), &self.plan.cgroup)
        {
            job.cancel(|| {});
            // Nobody is left who could be told of a failure.
            let _ = Cgroup::delete_directories(location);
        }
    }
}
