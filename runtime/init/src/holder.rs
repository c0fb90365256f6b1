//! The process for which systemd creates a scope.
//!
//! systemd creates a scope for an existing process. If that process were init, its cgroup would exist only after the
//! clone. That is too late for CLONE_INTO_CGROUP, for limits that apply from init's first instruction, and on cgroup v1
//! for the mounts that show the cgroup's directories. So the scope is created around a holder process, which only waits.
//! There are two kinds:
//!
//! - [`begin`]: the scope exists before init. The holder keeps it until init is in it, or until the parent exits.
//!   systemd removes a scope without processes, so a killed `create` leaves none.
//! - [`begin_outside`]: init is born in the scope's directory before systemd has the scope. systemd moves the holder
//!   there. The holder then exits, so that systemd notices the scope's end even if init has ended before. If the parent
//!   exits first, as `create` does, the holder itself waits for the end of systemd's job, and does the parent's work.
//!
//! A restore needs no holder: systemd makes the scope around criu.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};
use rustix::thread::set_name;
use sys::clone::{Child, Clone, CloneFlags, HOLDER, clone3, clone3_bound};
use sys::signal::{SignalSet, set_mask, signalfd};

/// The time after which a holder without a parent asks whether systemd knows the scope.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// The number of such times after which it gives up.
const PATIENCES: usize = 15;
/// The D-Bus signal at the end of a job.
const JOB_REMOVED: &[u8] = b"JobRemoved";
/// The result of a successful job in that signal: a text of four bytes (D-Bus specification, "Marshaling").
const DONE: &[u8] = b"\x04\0\0\0done\0";

/// Creates a holder inside the scope, which is killed when the caller exits.
///
/// # Errors
/// Those of clone3(2).
pub fn begin() -> Result<Child, Errno> {
    match clone3_bound()? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => loop {
            rustix::event::pause();
        },
    }
}

/// Creates a holder that systemd moves into the scope. `bus` is the connection on which the caller requests the scope;
/// no signals but those of the scope's jobs arrive there. If the caller exits before the job has ended, the holder calls
/// `finish` at the job's end, with true if the scope has started; `kept` are the descriptors that this needs. `is_known`
/// tells whether systemd has the scope: the caller may have been killed before it sent the request. Returns the holder,
/// and a pipe that contains a byte when the holder has closed all other descriptors, among them the container's lock.
///
/// # Errors
/// Those of clone3(2) and pipe2(2).
pub fn begin_outside(
    bus: BorrowedFd<'_>,
    kept: [BorrowedFd<'_>; 2],
    is_known: impl Fn() -> bool,
    finish: impl FnOnce(bool),
) -> Result<(Child, OwnedFd), Errno> {
    let parent = getpid();
    let (closed, open) = pipe_with(PipeFlags::CLOEXEC)?;
    match clone3(CloneFlags::empty(), None)? {
        Clone::Parent(child) => {
            drop(open);
            Ok((child, closed))
        }
        Clone::Child => {
            if await_orphanage(parent, bus, open, kept).is_ok()
                && is_open(bus)
                && let Some(has_started) = await_end(bus, is_known)
            {
                finish(has_started);
            }
            sys::start::exit(0)
        }
    }
}

/// Waits for the parent's exit.
fn await_orphanage(
    parent: Pid,
    bus: BorrowedFd<'_>,
    closed: OwnedFd,
    kept: [BorrowedFd<'_>; 2],
) -> Result<(), Errno> {
    set_name(HOLDER)?;
    // Signals to the parent's process group are not for the holder.
    let _ = setsid();
    set_mask(SignalSet::USR1_AND_PIPE)?;
    let signals = signalfd(SignalSet::USR1)?;
    let [one, other] = kept.map(|fd| fd.as_raw_fd());
    let used = [bus.as_raw_fd(), signals.as_raw_fd(), closed.as_raw_fd(), one, other];
    // SAFETY: this process uses no other descriptor until it exits.
    unsafe { sys::exec::close_all_but(0, &used) }?;
    // Fails if the parent has ended.
    let _ = rustix::io::write(&closed, b"\n");
    drop(closed);
    set_parent_process_death_signal(Some(Signal::USR1))?;
    while getppid() == Some(parent) {
        let _ = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
        let _ = sys::signal::read_signal(signals.as_fd());
    }
    Ok(())
}

/// Returns whether the parent has sent the request and not read that the job has ended. It marks the connection, which
/// both processes share, with O_NONBLOCK in between.
fn is_open(bus: BorrowedFd<'_>) -> bool {
    fcntl_getfl(bus).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Reads from the connection until the job has ended. Returns whether it was successful; `None` if this is not known.
fn await_end(bus: BorrowedFd<'_>, is_known: impl Fn() -> bool) -> Option<bool> {
    let has = |received: &[u8], text: &[u8]| received.windows(text.len()).any(|it| it == text);
    let mut buffer = [0; 2048];
    let mut left = PATIENCES;
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(bus, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(0) if left > 1 && is_known() => {
                left -= 1;
                continue;
            }
            Ok(0) => return None,
            _ => {}
        }
        let received = match recv(bus, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => buffer.get(..length).unwrap_or_default(),
            Err(_) => return None,
        };
        if has(received, JOB_REMOVED) {
            return Some(has(received, DONE));
        }
        if received.is_empty() {
            return None;
        }
    }
}
