//! The parent's side of the network maker (`init::network`).

use alloc::boxed::Box;

use init::channel;
use init::network::{Maker, STEPS, begin};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sys::Context;
use sys::clone::Child;
use sys::shared::Leaked;
use trace::{Label, Phase, Recorder, Steps, Tracer};

/// __WALL of waitid(2), which is needed to wait for a process whose exit sends no signal. The network maker's exit
/// sends no signal, because the signal would only wake a command that waits for its container.
pub(crate) const ALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// A network namespace being created.
#[derive(Debug)]
pub struct Network {
    maker: Child,
    socket: Option<OwnedFd>,
}

impl Network {
    /// Starts a network maker.
    ///
    /// # Errors
    /// Those of socketpair(2) and clone3(2).
    pub fn begin(tracer: &Tracer) -> Result<Self, sys::Error> {
        let context = ("clone3", "network maker");
        let (ours, theirs) = channel::pair().context(context.0, context.1)?;
        let recorder = tracer.is_on().then(|| Recorder::new(STEPS.len()));
        let task = Leaked::from(Box::new(Maker { socket: ours.as_fd(), recorder }));
        let maker = begin(task).context(context.0, context.1)?;
        if let Some(recorder) = &task.recorder {
            tracer.joined(plan::NETWORK, maker.pid, recorder, &Row, 0);
        }
        Ok(Self { maker, socket: Some(theirs) })
    }

    /// Takes init's end of the socket.
    pub(crate) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.take()
    }
}

impl Drop for Network {
    /// Reaps the network maker. If init has received the namespace, the network maker exited long ago. Otherwise the
    /// namespace is not needed, and the network maker is killed first.
    fn drop(&mut self) {
        let maker = WaitId::PidFd(self.maker.pidfd.as_fd());
        let ended = WaitIdOptions::EXITED | ALL;
        if let Ok(None) = waitid(maker, ended | WaitIdOptions::NOHANG) {
            let _ = sys::signal::send(self.maker.pidfd.as_fd(), 9);
            let _ = waitid(WaitId::PidFd(self.maker.pidfd.as_fd()), ended);
        }
    }
}

/// The labels of the network maker's steps on a time line.
#[derive(Debug)]
struct Row;

impl Steps for Row {
    fn label(&self, step: usize) -> Option<Label<'_>> {
        let name = STEPS.get(step)?;
        Some(Label { phase: Phase::Platform, name, object: "".into(), awaits: None })
    }
}
