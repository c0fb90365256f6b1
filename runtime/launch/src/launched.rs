//! The result of a launch.

use plan::Plan;
use plan::step::{InitStep, ParentStep};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use sys::clone::Child;

use crate::Error;
use crate::network::Network;
use crate::parent::await_message;
use init::channel::Message;

/// A launched container.
#[derive(Debug)]
pub struct Launched {
    /// The init process.
    pub child: Child,
    /// When the program began, if its exec was awaited and traced.
    pub program_since: u64,
    /// The open channel to init, if the plan does not wait for exec.
    pub pending: Option<Pending>,
    /// Resources of the assembled root filesystem, if any.
    pub rootfs: Option<rootfs::Assembled>,
}

/// An init that was told to continue and may not have executed its program yet.
#[derive(Debug)]
pub struct Pending {
    plan: &'static Plan,
    channel: OwnedFd,
    /// The network process, which may still be running.
    network: Option<Network>,
}

impl Pending {
    /// Returns the pending part after a plan has run.
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
        // Uses poll(2), not recv(2): the error for an exit with unread messages is reported only once, and `outcome`
        // needs it.
        let mut fds = [PollFd::new(&self.channel, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut fds, None) {}
    }

    /// Reaps helper processes, which have exited once the container runs. They are not reaped earlier, because waiting
    /// for their exit would wake the caller for that alone.
    pub fn tidy(&mut self) {
        self.await_exec();
        self.network = None;
    }

    /// Returns whether init executed its program; to be called after init's exit, with the `signal` that killed init,
    /// if any.
    ///
    /// # Errors
    /// The failure of init.
    pub fn outcome(self, signal: Option<i32>) -> Result<(), Error> {
        await_message(self.plan, &self.channel, &Message::Closed, || Error::death(signal))
    }
}
