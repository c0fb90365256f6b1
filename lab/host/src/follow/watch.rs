//! The deadline: a thread that kills the remaining processes by pidfd, since waiting for tracees has no timeout.

use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;

/// A handle to end following early, for example after a signal. It serves one command at a time, and has the processes
/// to kill at the deadline.
#[derive(Default, Debug)]
pub struct Stop {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Default, Debug)]
struct State {
    /// Whether [`Stop::stop`] was called. The call also applies to commands that are followed later.
    is_said: bool,
    /// Whether the current processes were killed. Processes that are added later are killed, too.
    expired: bool,
    over: bool,
    processes: HashMap<Pid, OwnedFd>,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills all processes that are followed with this handle, now and later.
    pub fn stop(&self) {
        self.lock().is_said = true;
        self.kill();
    }

    /// Prepares for the next command.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        (state.expired, state.over) = (state.is_said, false);
    }

    /// Adds a process, which must be stopped or a child of the caller, so that its pid is not reused. A process that is
    /// added after the deadline is killed immediately.
    pub(crate) fn add(&self, pid: Pid) {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        let mut state = self.lock();
        if state.expired {
            let _ = sys::signal::send(pidfd.as_fd(), SIGKILL);
        }
        state.processes.insert(pid, pidfd);
    }

    /// Removes a dead process.
    pub(crate) fn remove(&self, pid: Pid) {
        self.lock().processes.remove(&pid);
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn expired(&self) -> bool {
        self.lock().expired
    }

    /// Sleeps until the deadline or [`Self::finish`]; at the deadline, kills all processes.
    pub(crate) fn guard(&self, deadline: Duration) {
        let end = Instant::now() + deadline;
        let mut state = self.lock();
        while !state.over {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return self.kill();
            }
            let woken = self.over.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Kills all processes now, as at the deadline.
    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.expired = true;
        for pidfd in state.processes.values() {
            let _ = sys::signal::send(pidfd.as_fd(), SIGKILL);
        }
    }

    /// Ends [`Self::guard`] without killing the remaining processes.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.over = true;
        state.processes.clear();
        self.over.notify_all();
    }
}
