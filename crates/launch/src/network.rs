//! The network maker: a process that makes the container's network namespace while the host actor and
//! init do everything else.
//!
//! A network namespace is the dearest of all to make, about half a millisecond, and nothing needs it
//! before sysfs is mounted. The maker shares the host actor's memory, hands the namespace to init over
//! a socket of their own, and ends. With no CPU to spare it costs a process; else it costs nothing that
//! anybody waits for.

use alloc::boxed::Box;
use core::ffi::c_void;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sys::Context;
use sys::clone::{Child, CloneFlags, clone3_shared};
use sys::stack::Stack;
use trace::{Label, Phase, Recorder, Steps, Tracer};

use crate::channel;
use crate::fault::{Place, strike};

/// __WALL of waitid(2): the maker's end is announced by no signal, which would only wake a command that
/// waits for its container.
pub(crate) const ALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);
/// What the maker sends along with the namespace.
const MADE: u8 = b'n';

/// A network namespace that is being made.
#[derive(Debug)]
pub struct Network {
    maker: Child,
    socket: Option<OwnedFd>,
}

impl Network {
    /// Starts a maker.
    ///
    /// # Errors
    /// Those of socketpair(2) and clone3(2).
    pub fn begin(tracer: &Tracer) -> Result<Self, sys::Error> {
        let context = ("clone3", "network maker");
        let (ours, theirs) = channel::pair().context(context.0, context.1)?;
        let stack = Stack::map().context(context.0, context.1)?;
        let recorder = tracer.is_on().then(|| Recorder::new(STEPS.len()));
        let task: &'static Task = Box::leak(Box::new(Task { socket: ours.as_raw_fd(), recorder }));
        // SAFETY: the task is never freed nor changed, and the maker does not allocate.
        let maker = unsafe {
            let flags = CloneFlags::SILENT;
            clone3_shared(flags, None, &stack, make, (&raw const *task).cast())
        };
        let maker = maker.context(context.0, context.1)?;
        if let Some(recorder) = &task.recorder {
            tracer.joined(plan::NETWORK, maker.pid, recorder, &Maker, 0);
        }
        Ok(Self { maker, socket: Some(theirs) })
    }

    /// Init's end of the socket.
    pub(crate) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.take()
    }
}

impl Drop for Network {
    /// Reaps the maker. It has ended long ago where init got what it made; else nobody wants that.
    fn drop(&mut self) {
        let maker = WaitId::PidFd(self.maker.pidfd.as_fd());
        let ended = WaitIdOptions::EXITED | ALL;
        if let Ok(None) = waitid(maker, ended | WaitIdOptions::NOHANG) {
            let _ = sys::signal::send(self.maker.pidfd.as_fd(), 9);
            let _ = waitid(WaitId::PidFd(self.maker.pidfd.as_fd()), ended);
        }
    }
}

/// What the maker works with.
struct Task {
    socket: RawFd,
    recorder: Option<Recorder>,
}

/// The maker's steps on a time line.
#[derive(Debug)]
struct Maker;

const STEPS: [&str; 3] = ["unshare net", "loopback up", "hand over"];

impl Steps for Maker {
    fn label(&self, step: usize) -> Option<Label<'_>> {
        let name = STEPS.get(step)?;
        Some(Label { phase: Phase::Platform, name, object: "".into(), awaits: None })
    }
}

impl Task {
    /// Runs one of the steps.
    fn step<T>(&self, step: usize, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        strike(Place::Network, step)?;
        let Some(recorder) = &self.recorder else { return work() };
        let begun = recorder.begin(step);
        let result = work();
        recorder.end(begun, result.as_ref().map(drop).map_err(|errno| *errno));
        result
    }

    fn namespace(&self) -> Result<OwnedFd, Errno> {
        self.step(0, || sys::ns::unshare(CloneFlags::NEWNET))?;
        self.step(1, sys::net::loopback_up)?;
        openat(CWD, c"/proc/self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    fn hand_over(&self) -> Result<(), Errno> {
        // SAFETY: open in this process, which has its own descriptor table and does not close it.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        match self.namespace() {
            Ok(made) => self.step(2, || sys::fdpass::send(socket, &[MADE], made.as_fd())),
            Err(errno) => {
                let errno = errno.raw_os_error().to_ne_bytes();
                rustix::net::send(socket, &errno, SendFlags::NOSIGNAL).map(drop)
            }
        }
    }
}

extern "C" fn make(argument: *const c_void) -> ! {
    // SAFETY: what `begin` leaked.
    let task: &'static Task = unsafe { &*argument.cast() };
    if let Some(recorder) = &task.recorder {
        recorder.born();
    }
    sys::start::exit(i32::from(task.hand_over().is_err()))
}

/// In init: waits for the namespace.
///
/// # Errors
/// What the maker met; EPIPE if it was killed.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut bytes = [0u8; 4];
    match sys::fdpass::receive(socket, &mut bytes)? {
        (1, Some(namespace)) => Ok(namespace),
        (4, None) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(bytes))),
        _ => Err(Errno::PIPE),
    }
}
