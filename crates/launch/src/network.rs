//! The network maker: a process that makes the container's network namespace while the host actor and
//! init do everything else.
//!
//! A network namespace is the dearest of all to make, about half a millisecond, and nothing needs it
//! before sysfs is mounted. The maker shares the host actor's memory, hands the namespace to init over
//! a socket of their own, and ends: it costs nothing that anybody waits for. With no CPU to spare it
//! would cost a process, 3 % of a start; init makes the namespace itself then.

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

use crate::{channel, crowd};

/// __WALL of waitid(2): the maker's end is announced by no signal, which would only wake a command that
/// waits for its container.
const ALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);
/// What the maker sends along with the namespace.
const MADE: u8 = b'n';

/// A network namespace that is being made, or left to init.
#[derive(Debug)]
pub struct Network {
    maker: Option<Child>,
    socket: Option<OwnedFd>,
}

impl Network {
    /// Starts a maker, if there is a CPU for it.
    ///
    /// # Errors
    /// Those of socketpair(2) and clone3(2).
    pub fn begin() -> Result<Self, sys::Error> {
        if crowd::is_crowded() {
            return Ok(Self { maker: None, socket: None });
        }
        let context = ("clone3", "network maker");
        let (ours, theirs) = channel::pair().context(context.0, context.1)?;
        let stack = Stack::map().context(context.0, context.1)?;
        let socket: &'static RawFd = Box::leak(Box::new(ours.as_raw_fd()));
        // SAFETY: the number is never freed nor changed, and the maker does not allocate.
        let maker = unsafe {
            let flags = CloneFlags::SILENT;
            clone3_shared(flags, None, &stack, make, (&raw const *socket).cast())
        };
        Ok(Self { maker: Some(maker.context(context.0, context.1)?), socket: Some(theirs) })
    }

    /// Init's end of the socket, if there is a maker.
    pub(crate) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.take()
    }
}

impl Drop for Network {
    /// Reaps the maker. It has ended long ago where init got what it made; else nobody wants that.
    fn drop(&mut self) {
        let Some(maker) = &self.maker else { return };
        let maker = maker.pidfd.as_fd();
        let ended = WaitIdOptions::EXITED | ALL;
        if let Ok(None) = waitid(WaitId::PidFd(maker), ended | WaitIdOptions::NOHANG) {
            let _ = sys::signal::send(maker, 9);
            let _ = waitid(WaitId::PidFd(maker), ended);
        }
    }
}

extern "C" fn make(argument: *const c_void) -> ! {
    // SAFETY: what `begin` leaked.
    let socket: RawFd = unsafe { *argument.cast() };
    // SAFETY: open in this process, which has its own descriptor table and does not close it.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let sent = match made() {
        Ok(made) => sys::fdpass::send(socket, &[MADE], made.as_fd()),
        Err(errno) => {
            let errno = errno.raw_os_error().to_ne_bytes();
            rustix::net::send(socket, &errno, SendFlags::NOSIGNAL).map(drop)
        }
    };
    sys::start::exit(i32::from(sent.is_err()))
}

fn made() -> Result<OwnedFd, Errno> {
    unshare()?;
    openat(CWD, c"/proc/self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Makes the namespace and enters it.
fn unshare() -> Result<(), Errno> {
    sys::ns::unshare(CloneFlags::NEWNET)?;
    sys::net::loopback_up()
}

/// In init: enters the namespace that the maker at the other end of `socket` makes; without one, makes
/// it.
///
/// # Errors
/// What the maker met; EPIPE if it was killed. Those of unshare(2), netdevice(7) and setns(2).
pub(crate) fn join(socket: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    match socket {
        Some(socket) => sys::ns::join(receive(socket)?.as_fd(), CloneFlags::NEWNET),
        None => unshare(),
    }
}

/// Waits for the namespace.
fn receive(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut bytes = [0u8; 4];
    match sys::fdpass::receive(socket, &mut bytes)? {
        (1, Some(namespace)) => Ok(namespace),
        (4, None) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(bytes))),
        _ => Err(Errno::PIPE),
    }
}
