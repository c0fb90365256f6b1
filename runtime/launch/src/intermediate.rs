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

/// Why there is no init.
pub(crate) enum Refused {
    /// The intermediate reported a failure.
    Failed(&'static str, Errno),
    /// The intermediate exited without a message.
    Died,
    /// Init had already failed.
    Init(Box<Message>),
    /// The intermediate's message could not be received.
    System(sys::Error),
}

/// Returns the init that an intermediate in this process's memory has created, after the intermediate's exit: a child
/// of this process, whose pid cannot be reused before it is waited for.
pub(crate) fn take_over(job: &Job, channel: &OwnedFd) -> Result<Child, Refused> {
    match Pid::from_raw(job.made.load(Ordering::Relaxed)) {
        Some(pid) => {
            let pidfd = pidfd_open(pid, PidfdFlags::empty());
            Ok(Child { pid, pidfd: pidfd.context("pidfd_open", "init").map_err(Refused::System)? })
        }
        None => Err(why(channel)),
    }
}

/// Returns the failure that an intermediate without an init has reported.
#[cold]
fn why(channel: &OwnedFd) -> Refused {
    let mut bytes = [0u8; channel::LONGEST];
    // Does not wait: an init that is not known yet may hold the channel open as well.
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

/// Receives init's pidfd and its pid as this process sees it. The relay may stay open after the intermediate's exit,
/// since init inherits it; an init that is not known yet exits when our end of the channel closes.
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

/// Waits until there is a message from the intermediate, or it has exited; returns whether there is one.
fn answers(intermediate: &OwnedFd, relay: &OwnedFd) -> Result<bool, Errno> {
    // The relay is checked last: an intermediate that has exited has sent its messages.
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

/// Returns the pid behind a pidfd, from fdinfo (proc_pid_fdinfo(5)).
fn pid_of(pidfd: &OwnedFd, proc: Option<BorrowedFd<'_>>) -> Result<Pid, sys::Error> {
    use rustix::fd::AsRawFd;
    let path = alloc::format!("self/fdinfo/{}", pidfd.as_raw_fd());
    let proc = proc.ok_or_else(|| sys::Error::new("open", "/proc", Errno::BADF))?;
    let text = sys::fs::read_at(proc, path.as_str()).context("read", &path)?;
    let pid = text.split(|&byte| byte == b'\n').find_map(|line| {
        let number = line.strip_prefix(b"Pid:")?.trim_ascii();
        Pid::from_raw(core::str::from_utf8(number).ok()?.parse().ok()?)
    });
    pid.ok_or_else(|| sys::Error::new("read", path, Errno::SRCH))
}
