//! An init that is not the program: the reaper of a template, and the stand-in for a process that a template has
//! forked.
//!
//! Both are the first process of their PID namespace, and all that the rest of the host sees of the container: the
//! record names them, engines wait for them, and signals are sent to them. They pass signals on, reap, and end with the
//! program's status. Neither executes a program, so both stay undumpable: a process of the container can neither trace
//! them nor open /proc/1/exe.
//!
//! The kernel kills all processes of a PID namespace, and of those inside it, when its first process ends. If a
//! template's program were that process, its end would be the end of its containers. So init stays as the reaper, and
//! its child executes the program.
//!
//! The program of a container is not a child of the stand-in. Its pidfd hangs up when the program has been reaped, and
//! then has the status (PIDFD_GET_INFO, Linux 6.15). The template's library ignores SIGCHLD, so the kernel reaps. If
//! the template has ended, the reaper reaps.
//!
//! A template's program has the pid 300, and its children have the pid 2: libraries that notice a fork by the pid, such
//! as OpenSSL, notice this one.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::SendFlags;
use rustix::process::{WaitOptions, WaitStatus, wait};
use sys::clone::{Child, Clone, clone3_numbered};
use sys::signal::{SignalSet, read_signal, set_mask, signalfd};

use super::Init;
use crate::channel;
use crate::failure::{Failure, Op};
use crate::step::Slot;

const SIGCHLD: i32 = 17;
/// The pid of a template's program in its PID namespace. Its children are 2 in theirs: libraries that notice a fork by
/// the pid, such as OpenSSL, notice this one, and do not go on with the template's random state.
const PROGRAM: i32 = 300;
/// The message that lets a template's child run as the program.
const GO: &[u8] = b"G";

impl Init<'_> {
    /// Creates the process that becomes the template's program, and returns in it. The caller becomes the reaper.
    pub(super) fn become_reaper(&mut self) -> Result<(), Failure> {
        self.pass_requests()?;
        // Blocked before the clone: the first process of a PID namespace ignores every other signal.
        set_mask(SignalSet::ALL).op("rt_sigprocmask")?;
        match clone3_numbered(PROGRAM).op("clone3")? {
            Clone::Child => set_mask(SignalSet::EMPTY).map(drop).op("rt_sigprocmask"),
            Clone::Parent(program) => reap(&program),
        }
    }

    /// Lets the program inherit the socket of a template.
    pub(super) fn pass_requests(&mut self) -> Result<(), Failure> {
        fcntl_setfd(self.fd(Slot::REQUESTS)?, FdFlags::empty()).op("fcntl F_SETFD")
    }

    /// Waits until the container is recorded.
    pub(super) fn await_commit_or_fork(&mut self) -> Result<(), Failure> {
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?;
        self.forked = channel::expect_commit(channel).op("channel")?;
        Ok(())
    }

    /// Lets the announced child of a template run as the program, and stays until it has ended.
    pub(super) fn stand_in(&mut self) -> Result<(), Failure> {
        let program = self.forked.take().ok_or(Failure::new("fork", Errno::CHILD))?;
        let socket = self.fd(Slot::STAND_IN)?;
        set_mask(SignalSet::ALL).op("rt_sigprocmask")?;
        let signals = signalfd(SignalSet::ALL).op("signalfd")?;
        // Before the program runs, which sees it.
        set_title(b"dayfly: stand-in of a forked program");
        rustix::net::send(socket, GO, SendFlags::NOSIGNAL).op("send")?;
        // Closes the channel: to the parent, this is the exec of the program.
        core::mem::forget((self.channel.take(), self.starter.take()));
        // SAFETY: `attend` uses only these two, and does not return.
        unsafe { keep_only(&[&signals, &program]) }.op("close_range")?;
        attend(&signals, &program)
    }
}

/// Hides the arguments of the command, which a template can read while init makes the container.
pub(super) fn hide_arguments() {
    set_title(b"dayfly: init of a forked program");
}

/// Replaces the arguments of the command by this text.
fn set_title(title: &[u8]) {
    // SAFETY: this init has a copy of its parent's memory (rule `own-memory-to-stay`), and reads no arguments.
    unsafe { sys::start::set_title(title) };
}

/// Closes all descriptors but these.
///
/// # Safety
/// This process must not use or drop another descriptor until it exits.
unsafe fn keep_only(kept: &[&OwnedFd; 2]) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    unsafe { sys::exec::close_all_but(0, &kept.map(AsRawFd::as_raw_fd)) }
}

/// Passes signals on to the program until it has ended and was reaped by its parent, the template. Reaps the processes
/// that the program has left behind.
fn attend(signals: &OwnedFd, program: &OwnedFd) -> ! {
    loop {
        // A pidfd hangs up when its process has been reaped.
        let mut fds =
            [PollFd::new(signals, PollFlags::IN), PollFd::new(program, PollFlags::empty())];
        let _ = poll(&mut fds, None);
        let [_, end] = &fds;
        let has_ended = end.revents().contains(PollFlags::HUP);
        pass_on(signals, program.as_fd(), || while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {});
        if has_ended {
            let status = sys::exit_info::exit_status(program).unwrap_or(255 << 8);
            sys::start::exit(sys::exit_info::code(status))
        }
    }
}

/// Passes signals on to the template's program, and reaps. Stays after the program's end until no process is left: the
/// end of this process would end the containers of the template's children, whose PID namespaces are inside this one.
fn reap(program: &Child) -> ! {
    let Ok(signals) = signalfd(SignalSet::ALL) else { sys::start::exit(1) };
    set_title(b"dayfly: reaper of a template");
    // SAFETY: the loop uses only these two, and does not end.
    if unsafe { keep_only(&[&signals, &program.pidfd]) }.is_err() {
        sys::start::exit(1)
    }
    let mut status = 0;
    loop {
        let _ = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
        pass_on(&signals, program.pidfd.as_fd(), || {
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, end))) if pid == program.pid => status = code(end),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => sys::start::exit(status),
                }
            }
        });
    }
}

/// Sends all pending signals to the program, except SIGCHLD, for which it calls `on_exit`.
fn pass_on(signals: &OwnedFd, program: BorrowedFd<'_>, mut on_exit: impl FnMut()) {
    while let Ok(signal) = read_signal(signals.as_fd()) {
        match signal {
            SIGCHLD => on_exit(),
            _ => drop(sys::signal::send(program, signal)),
        }
    }
}

/// Returns the exit code by which shells and engines know this status.
fn code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| Some(128 + status.terminating_signal()?)).unwrap_or(255)
}
