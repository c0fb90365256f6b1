//! Records when a process that is no longer traced ends.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;
use trace::now;

/// The maximum time to wait for the thread of [`Ending`] to report the end, once tracing is over.
const GRACE: Duration = Duration::from_millis(100);

/// A thread that waits for one process by a pidfd.
#[derive(Debug)]
pub struct Ending(Option<Receiver<u64>>);

impl Ending {
    /// Waits for the end of the process `pid`, which must still exist, at most for the time `deadline`.
    pub fn of(pid: Pid, deadline: Duration) -> Self {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return Self(None) };
        let (sender, receiver) = sync_channel(1);
        let timeout = Timespec::try_from(deadline).ok();
        thread::spawn(move || {
            let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timeout.as_ref());
            if ended == Ok(1) {
                let _ = sender.send(now());
            }
        });
        Self(Some(receiver))
    }

    /// Returns the time of the end; `None` if the process has not ended yet.
    pub fn time(self) -> Option<u64> {
        self.0?.recv_timeout(GRACE).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_an_end() {
        let mut child = std::process::Command::new("/bin/true").spawn().expect("true");
        let before = now();
        let ending = Ending::of(Pid::from_child(&child), Duration::from_secs(5));
        assert!(ending.time().is_some_and(|time| time >= before));
        child.wait().expect("reap");
    }
}
