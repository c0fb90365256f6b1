//! What a launch hands to its caller.

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

/// A container on its way.
#[derive(Debug)]
pub struct Launched {
    /// Its init.
    pub child: Child,
    /// When it became its program, if that was awaited and anybody traces.
    pub program_since: u64,
    /// What is still to be heard of it, where the plan does not wait for exec.
    pub pending: Option<Pending>,
    /// What is left of assembling its root filesystem, if that was done.
    pub rootfs: Option<rootfs::Assembled>,
}

/// An init that was told to go on, and has not said yet whether it became its program.
#[derive(Debug)]
pub struct Pending {
    plan: &'static Plan,
    channel: OwnedFd,
    /// May still be at work.
    network: Option<Network>,
}

impl Pending {
    /// What is left to be heard after a plan has run.
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

    /// Waits until init has become its program, or has ended.
    pub fn await_exec(&self) {
        // Looked at only, and not by recv(2): that an init has ended with words unread is told once, and is
        // for `outcome` to hear.
        let mut fds = [PollFd::new(&self.channel, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut fds, None) {}
    }

    /// Reaps what helped to make the container, which has ended once that runs: not at once, as that
    /// would have the caller woken for it, but before anybody minds.
    pub fn tidy(&mut self) {
        self.await_exec();
        self.network = None;
    }

    /// Whether init became its program, to be asked after its end: by `signal`, if by one.
    ///
    /// # Errors
    /// What failed.
    pub fn outcome(self, signal: Option<i32>) -> Result<(), Error> {
        await_message(self.plan, &self.channel, &Message::Closed, || Error::death(signal))
    }
}
