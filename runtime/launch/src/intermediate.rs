//! The intermediate (`init::intermediate`) as the parent hears of it.

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
    /// The intermediate says so.
    Failed(&'static str, Errno),
    /// It ended without a word.
    Died,
    /// Init had failed by then.
    Init(Box<Message>),
    /// It could not be received.
    System(sys::Error),
}

/// In the parent, once an intermediate in its memory has ended: the init that it has made, which is this process's
/// child, so that its pid stays its own.
pub(crate) fn take_over(job: &Job, channel: &OwnedFd) -> Result<Child, Refused> {
    match Pid::from_raw(job.made.load(Ordering::Relaxed)) {
        Some(pid) => {
            let pidfd = pidfd_open(pid, PidfdFlags::empty());
            Ok(Child { pid, pidfd: pidfd.context("pidfd_open", "init").map_err(Refused::System)? })
        }
        None => Err(why(channel)),
    }
}

/// What an intermediate without an init has said.
#[cold]
fn why(channel: &OwnedFd) -> Refused {
    let mut bytes = [0u8; channel::LONGEST];
    // An init of which nobody has heard has the channel as well, and would be waited for.
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

/// In the parent: init's pidfd, and its pid as this process sees it. The relay need not close with the intermediate,
/// as init is born with it, too; an init of which nobody has heard ends when our end of the channel does.
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

/// Whether there is a word to be heard, before the intermediate's end or after.
fn answers(intermediate: &OwnedFd, relay: &OwnedFd) -> Result<bool, Errno> {
    // The relay is looked at last: an intermediate that has ended has said what it had to say.
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

/// The pid behind a pidfd, as fdinfo has it (proc_pid_fdinfo(5)).
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
