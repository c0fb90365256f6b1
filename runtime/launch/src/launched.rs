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
    /// The time at which the program began, if the parent waited for its exec and the launch was traced.
    pub program_since: u64,
    /// The open channel to init, if the plan does not wait for exec.
    pub pending: Option<Pending>,
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
