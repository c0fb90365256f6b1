//! The deadline: a thread that kills by pidfd what is still there when time is up, since a wait for
//! tracees can't have a limit of its own.

use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;

/// The processes that must not outlive the deadline.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Default)]
struct State {
    processes: HashMap<Pid, OwnedFd>,
    expired: bool,
    over: bool,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process, which is stopped or a child of the caller, so that the number is its own.
    /// After the deadline it is killed at once.
    pub(crate) fn add(&self, pid: Pid) {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        let mut state = self.lock();
        if state.expired {
            let _ = sys::signal::send(pidfd.as_fd(), SIGKILL);
        }
        state.processes.insert(pid, pidfd);
    }

    /// Forgets a process that is dead.
    pub(crate) fn remove(&self, pid: Pid) {
        self.lock().processes.remove(&pid);
    }

    /// Whether the deadline has passed.
    pub(crate) fn expired(&self) -> bool {
        self.lock().expired
    }

    /// Sleeps until the deadline or until [`Watch::finish`]; kills everybody in the former case.
    pub(crate) fn guard(&self, deadline: Duration) {
        let end = Instant::now() + deadline;
        let mut state = self.lock();
        while !state.over {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.kill();
                return;
            }
            let woken = self.over.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Kills everybody now, as if the deadline had passed.
    pub(crate) fn kill(&self) {
        self.lock().kill();
    }

    /// Ends [`Watch::guard`]: those who are left live on.
    pub(crate) fn finish(&self) {
        self.lock().over = true;
        self.over.notify_all();
    }
}

impl State {
    fn kill(&mut self) {
        self.expired = true;
        for pidfd in self.processes.values() {
            let _ = sys::signal::send(pidfd.as_fd(), SIGKILL);
        }
    }
}
