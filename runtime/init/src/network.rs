//! The network maker: creates the container's network namespace while the parent and init do everything else.
//!
//! A network namespace takes longer to create than any other namespace, about half a millisecond, and is first needed
//! when sysfs is mounted. The network maker shares the parent's memory, passes the namespace to init over a socket that
//! only the network maker and init use, and exits. If a CPU is idle, the network maker runs in parallel with parent and
//! init. If not, its run time adds to the duration of the start.
//!
//! Init creates the namespace itself if all CPUs are busy, or if devices of the host are to be moved there first. In
//! init's list, only steps that need the namespace come after the wait: mounts at and below sysfs, masks below sysfs,
//! and sysctls. Before Linux 6.8, mountinfo shows the order in which mounts were made. There, init keeps the order of
//! the configuration: all mounts that follow sysfs come after the wait as well.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use sys::clone::{Child, CloneFlags, clone3_shared};
use sys::recorder::Recorder;
use sys::shared::Leaked;
use sys::stack::Stack;

use crate::fault::{Place, strike};

/// The byte that is sent along with the namespace's descriptor.
const MADE: u8 = b'n';

/// The steps of the network maker, in order.
pub const STEPS: [&str; 3] = ["unshare net", "loopback up", "hand over"];

/// The input of the network maker.
#[derive(Debug)]
pub struct Maker<'fd> {
    /// The network maker's end of the socket.
    pub socket: BorrowedFd<'fd>,
    /// The time line of the steps, if the start is traced.
    pub recorder: Option<Recorder>,
}

/// Starts a network maker. Its exit sends no signal to the parent.
///
/// # Errors
/// Those of clone3(2), and ENOMEM.
pub fn begin(maker: Leaked<Maker<'_>>) -> Result<Child, Errno> {
    let stack = Stack::map()?;
    let flags = CloneFlags::SILENT;
    // SAFETY: `maker` is never freed, only its recorder changes, through atomics, and nothing here uses a heap.
    unsafe { clone3_shared(flags, None, &stack, make, &*maker) }
}

impl Maker<'_> {
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
        match self.namespace() {
            Ok(made) => self.step(2, || sys::fdpass::send(self.socket, &[MADE], made.as_fd())),
            Err(errno) => {
                let errno = errno.raw_os_error().to_ne_bytes();
                rustix::net::send(self.socket, &errno, SendFlags::NOSIGNAL).map(drop)
            }
        }
    }
}

extern "C" fn make(maker: &Maker<'_>) -> ! {
    if let Some(recorder) = &maker.recorder {
        recorder.born();
    }
    sys::start::exit(i32::from(maker.hand_over().is_err()))
}

/// Waits for the namespace; called by init.
///
/// # Errors
/// The error of the network maker; EPIPE if it was killed.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut bytes = [0u8; 4];
    match sys::fdpass::receive(socket, &mut bytes)? {
        (1, Some(namespace)) => Ok(namespace),
        (4, None) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(bytes))),
        _ => Err(Errno::PIPE),
    }
}
