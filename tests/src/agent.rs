//! A seccomp agent: receives listeners on a socket, and answers their notifications.

use crate::console::FdSocket;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use sys::unotify::{self, Answer, Notification};

/// An agent that answers all notifications with one function, until all processes under its filters have exited.
pub struct Agent {
    socket: String,
    messages: Receiver<Value>,
}

impl Agent {
    /// Starts an agent whose socket is in `dir`.
    ///
    /// # Panics
    /// When the socket can't be bound.
    #[must_use]
    pub fn new(
        dir: &Path,
        answer: impl Fn(&Notification) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(dir, move |listener| decide(&listener, &answer))
    }

    /// Starts an agent that exits as soon as it has a listener.
    ///
    /// # Panics
    /// When the socket can't be bound.
    #[must_use]
    pub fn short_lived(dir: &Path) -> Self {
        Self::start(dir, drop)
    }

    fn start(dir: &Path, serve: impl Fn(OwnedFd) + Send + Sync + 'static) -> Self {
        let socket = FdSocket::new(dir, "agent.sock");
        let path = socket.arg();
        let (sender, messages) = channel();
        let serve = std::sync::Arc::new(serve);
        // The thread ends with the process, because requests may come at any time.
        thread::spawn(move || {
            loop {
                let (listener, text) = socket.receive();
                let message = serde_json::from_str(&text).unwrap_or(Value::String(text));
                let serve = serve.clone();
                thread::spawn(move || serve(listener));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { socket: path, messages }
    }

    /// Returns the path for the profile's `listenerPath`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.socket
    }

    /// Returns the next container process state received.
    ///
    /// # Panics
    /// When no state arrives in time.
    #[track_caller]
    #[must_use]
    pub fn message(&self) -> Value {
        self.messages.recv_timeout(crate::wait::patience()).expect("a container process state")
    }

    /// Returns whether an unread container process state has arrived, and discards that state.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.messages.try_recv().is_ok()
    }
}

fn decide(listener: &OwnedFd, answer: &impl Fn(&Notification) -> Answer) {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[0].revents().contains(PollFlags::IN) {
            return;
        }
        // The caller may be killed at any time, so errors are ignored.
        if let Ok(call) = unotify::receive(listener) {
            let _ = unotify::answer(listener, call.id, answer(&call));
        }
    }
}
