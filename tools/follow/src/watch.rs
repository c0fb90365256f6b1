//! The deadline: a thread that kills by pidfd what is still there when time is up, since a wait for
//! tracees can't have a limit of its own.

use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;

/// The processes that must not outlive the deadline.
#[derive(Default)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
}

#[derive(Default, Debug)]
struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

/// Ends what is followed before its time: for who hears a signal meanwhile.
#[derive(Default, Debug)]
pub struct Stop(Mutex<Stopped>);

#[derive(Default, Debug)]
struct Stopped {
    /// Whether all is to end, what is followed from now on as well.
    is_said: bool,
    /// What is followed at this moment.
    followed: Option<Arc<Shared>>,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Stopped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills all that is followed with it, now and later.
    pub fn stop(&self) {
        let mut stopped = self.lock();
        stopped.is_said = true;
        if let Some(shared) = &stopped.followed {
            shared.lock().kill();
        }
    }

    /// Has it reach those of `watch` as long as the answer lives.
    pub(crate) fn heeded_by(&self, watch: &Watch) -> Heeded<'_> {
        let mut stopped = self.lock();
        if stopped.is_said {
            watch.kill();
        }
        stopped.followed = Some(Arc::clone(&watch.shared));
        Heeded(self)
    }
}

/// See [`Stop::heeded_by`].
pub(crate) struct Heeded<'a>(&'a Stop);

impl Drop for Heeded<'_> {
    fn drop(&mut self) {
        self.0.lock().followed = None;
    }
}

#[derive(Default, Debug)]
struct State {
    processes: HashMap<Pid, OwnedFd>,
    expired: bool,
    over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
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
            let woken = self.shared.over.wait_timeout(state, left);
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
        self.shared.over.notify_all();
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
