//! The wait for the `start` command, with as few open descriptors as possible.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::Init;
use crate::channel::{self, Word};
use crate::failure::{Failure, Op};
use crate::step::Slot;

impl Init<'_> {
    /// Closes all descriptors except the channel and the sockets of later steps. Other slots and masks are not used
    /// from here on.
    pub(super) fn release_descriptors(&mut self, from: u32) -> Result<(), Failure> {
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?.as_fd();
        let kept = [Slot::START, Slot::STAND_IN, Slot::REQUESTS];
        let kept = kept.map(|slot| self.slots.get(slot).unwrap_or(channel).as_raw_fd());
        let [start, stand_in, requests] = kept;
        let kept = [channel.as_raw_fd(), start, stand_in, requests];
        // SAFETY: no later step uses another slot (rules of the order of steps), and the masks are not dropped.
        unsafe { sys::exec::close_all_but(from, &kept) }.op("close_range")?;
        core::mem::forget((self.file_mask.take(), self.directory_mask.take()));
        Ok(())
    }

    /// Waits for the `start` command. A connection without a message is not a start: `state` connects to check whether
    /// init waits.
    pub(super) fn await_start(&mut self) -> Result<(), Failure> {
        self.channel = None;
        loop {
            let listener = self.fd(Slot::START)?;
            let starter = match accept_with(listener, SocketFlags::CLOEXEC) {
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                result => result.op("accept")?,
            };
            // If `start` was killed after it sent its message, init does not continue. Otherwise a
            // container that was reported as "created" could start to run although no command is
            // running.
            if channel::expect(&starter, Word::Start).is_ok() && channel::is_open(&starter) {
                let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
                self.starter = Some(starter);
                return Ok(());
            }
        }
    }
}
