//! The deadline: a thread that kills the remaining processes by pidfd, since waiting for tracees has no timeout.

use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;

/// The processes to kill at the deadline.
#[derive(Default)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
}

#[derive(Default, Debug)]
struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

/// A handle to end following early, for example after a signal.
#[derive(Default, Debug)]
pub struct Stop(Mutex<Stopped>);

#[derive(Default, Debug)]
struct Stopped {
    /// Whether [`Stop::stop`] was called. The call also applies to processes that are added later.
    is_said: bool,
    /// The current processes.
    followed: Option<Arc<Shared>>,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Stopped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills all processes that are followed with this handle, now and later.
    pub fn stop(&self) {
        let mut stopped = self.lock();
        stopped.is_said = true;
        if let Some(shared) = &stopped.followed {
            shared.lock().kill();
        }
    }

    /// Connects this handle to `watch` until the result is dropped.
    pub(crate) fn heeded_by(&self, watch: &Watch) -> Heeded<'_> {
        let mut stopped = self.lock();
        if stopped.is_said {
            watch.kill();
        }
        stopped.followed = Some(Arc::clone(&watch.shared));
        Heeded(self)
    }
}

/// The connection of a [`Stop`] to a [`Watch`], ended when dropped; see [`Stop::heeded_by`].
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

    /// Sleeps until the deadline or [`Watch::finish`]; at the deadline, kills all processes.
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

    /// Kills all processes now, as at the deadline.
    pub(crate) fn kill(&self) {
        self.lock().kill();
    }

    /// Ends [`Watch::guard`] without killing the remaining processes.
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
