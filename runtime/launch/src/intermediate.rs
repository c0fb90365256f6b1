//! The parent's side of the intermediate (`init::intermediate`).

use alloc::boxed::Box;
use core::sync::atomic::Ordering;

use init::channel::{self, Message};
use init::{Job, intermediate};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::Context;
use sys::clone::Child;

/// The reason why the parent did not get an init.
pub(crate) enum Refused {
    /// The intermediate reported a failure.
    Failed(&'static str, Errno),
    /// The intermediate exited without a message.
    Died,
    /// Init was created, but failed with this message.
    Init(Box<Message>),
    /// The intermediate's message could not be received.
    System(sys::Error),
}

/// Returns the init that was created by an intermediate which shared this process's memory and has exited. Init is a
/// child of this process, so its pid cannot be reused before this process has waited for it.
pub(crate) fn take_over(job: &Job<'_>, channel: &OwnedFd) -> Result<Child, Refused> {
    match Pid::from_raw(job.made.load(Ordering::Relaxed)) {
        Some(pid) => {
            let pidfd = pidfd_open(pid, PidfdFlags::empty());
            Ok(Child { pid, pidfd: pidfd.context("pidfd_open", "init").map_err(Refused::System)? })
        }
        None => Err(why(channel)),
    }
}

/// Returns the failure reported by an intermediate that could not create init.
#[cold]
fn why(channel: &OwnedFd) -> Refused {
    let mut bytes = [0u8; channel::LONGEST];
    // Does not block: an init that this process does not know may hold the channel open after the intermediate's exit.
    match recv(channel, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, length)) => refusal(bytes.get(..length).unwrap_or_default()),
        Err(_) => Refused::Died,
    }
}

fn refusal(said: &[u8]) -> Refused {
    if let Some((step, errno)) = intermediate::refusal(said) {
        return Refused::Failed(step, errno);
    }
    match channel::parse(said) {
        Ok(failed @ Message::Failed { .. }) => Refused::Init(Box::new(failed)),
        Ok(Message::Closed) => Refused::Died,
        _ => Refused::System(sys::Error::new("recvmsg", "intermediate", Errno::PROTO)),
    }
}

/// Receives init's pidfd, and looks up init's pid in this process's PID namespace. The relay may stay open after the
/// intermediate's exit, since init inherits it. If this function fails although init has been created, init exits when
/// the parent's end of the channel closes.
pub(crate) fn receive(
    intermediate: &OwnedFd,
    relay: &OwnedFd,
    proc: Option<BorrowedFd<'_>>,
) -> Result<Child, Refused> {
    if !answers(intermediate, relay).context("poll", "intermediate").map_err(Refused::System)? {
        return Err(Refused::Died);
    }
    let mut bytes = [0u8; channel::LONGEST];
    let received = sys::fdpass::receive(relay, &mut bytes).context("recvmsg", "intermediate");
    let (length, pidfd) = received.map_err(Refused::System)?;
    match (bytes.get(..length).unwrap_or_default(), pidfd) {
        ([b'P'], Some(pidfd)) => {
            let pid = pid_of(&pidfd, proc).map_err(Refused::System)?;
            Ok(Child { pid, pidfd })
        }
        (said, _) => Err(refusal(said)),
    }
}

/// Waits until the intermediate has sent a message or has exited; returns whether it has sent a message.
fn answers(intermediate: &OwnedFd, relay: &OwnedFd) -> Result<bool, Errno> {
    // poll(2) checks the relay last: if it finds that the intermediate has exited, it also finds every message that the
    // intermediate has sent.
    let mut fds = [PollFd::new(intermediate, PollFlags::IN), PollFd::new(relay, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            result => {
                let [_, said] = &fds;
                return result.map(|_| !said.revents().is_empty());
            }
        }
    }
}

/// Returns the pid of the process that `pidfd` refers to, from fdinfo (proc_pid_fdinfo(5)).
fn pid_of(pidfd: &OwnedFd, proc: Option<BorrowedFd<'_>>) -> Result<Pid, sys::Error> {
    use rustix::fd::AsRawFd;
    let path = alloc::format!("self/fdinfo/{}", pidfd.as_raw_fd());
    let proc = proc.ok_or_else(|| sys::Error::new("open", "/proc", Errno::BADF))?;
    let text = sys::fs::read_at(proc, path.as_str()).context("read", &path)?;
    sys::pidfd::pid(&text).ok_or_else(|| sys::Error::new("read", path, Errno::SRCH))
}
