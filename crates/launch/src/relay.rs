//! The relay: an intermediate process where new namespaces must belong to a joined user namespace.
//!
//! clone3(2) gives new namespaces to the caller's user namespace, so somebody must join that one
//! first. The relay does, makes init as the host actor's child (CLONE_PARENT), hands over its pidfd
//! and ends.

use plan::step::{Relay, Slot, TimeNamespace};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::Pid;
use sys::Context;
use sys::clone::{Child, Clone, CloneFlags, clone3};

use crate::channel::{self, Message};
use crate::clock;
use crate::fault::{Place, strike};
use crate::slots::Slots;

/// In the relay: returns only in init.
pub(crate) fn pass_on(
    relay: Relay,
    time: Option<&TimeNamespace>,
    slots: &Slots,
    flags: CloneFlags,
    channel: &OwnedFd,
) {
    let joined =
        strike(Place::Relay, 0).and_then(|()| join(relay, slots)).and_then(|()| {
            match time.filter(|_| relay.time) {
                Some(time) => clock::enter(time, slots).map_err(|error| error.errno),
                None => Ok(()),
            }
        });
    if let Err(errno) = joined {
        refuse(channel, b'u', errno);
    }
    if let Err(errno) = strike(Place::Relay, 1) {
        refuse(channel, b'c', errno);
    }
    // SAFETY: the process has one thread.
    match unsafe { clone3(flags | CloneFlags::PARENT, None) } {
        Ok(Clone::Child) => {}
        Ok(Clone::Parent(child)) => {
            let sent = strike(Place::Relay, 2)
                .and_then(|()| sys::fdpass::send(channel, b"P", child.pidfd.as_fd()));
            match sent {
                Ok(()) => sys::start::exit(0),
                Err(errno) => refuse(channel, b'h', errno),
            }
        }
        Err(errno) => refuse(channel, b'c', errno),
    }
}

fn join(relay: Relay, slots: &Slots) -> Result<(), Errno> {
    let Relay { user, pid, .. } = relay;
    let kinds = [(user, CloneFlags::NEWUSER), (pid, CloneFlags::NEWPID)];
    for (slot, kind) in kinds.into_iter().filter_map(|(slot, kind)| Some((slot?, kind))) {
        let namespace = slots.get(slot).ok_or(Errno::BADF)?;
        match slot {
            Slot::CONTAINER => sys::ns::join_process(namespace, kind)?,
            _ => sys::ns::join(namespace, kind)?,
        }
    }
    Ok(())
}

fn refuse(channel: &OwnedFd, step: u8, errno: Errno) -> ! {
    let [a, b, c, d] = errno.raw_os_error().to_ne_bytes();
    let _ = rustix::net::send(channel, &[step, a, b, c, d], SendFlags::NOSIGNAL);
    sys::start::exit(1)
}

/// Why there is no init.
pub(crate) enum Refused {
    /// The relay says so.
    Failed(&'static str, Errno),
    /// It ended without a word.
    Died,
    /// Init had failed by then.
    Init(Message),
    /// It could not be received.
    System(sys::Error),
}

/// In the host actor: init's pidfd, and its pid as this process sees it. The channel does not close with
/// the relay, as init has it, too; an init of which nobody has heard ends when our end does.
pub(crate) fn receive(
    relay: &OwnedFd,
    channel: &OwnedFd,
    proc: Option<BorrowedFd<'_>>,
) -> Result<Child, Refused> {
    if !answers(relay, channel).context("poll", "relay").map_err(Refused::System)? {
        return Err(Refused::Died);
    }
    let mut bytes = [0u8; channel::LONGEST];
    let received = sys::fdpass::receive(channel, &mut bytes).context("recvmsg", "relay");
    let (length, pidfd) = received.map_err(Refused::System)?;
    match (bytes.get(..length).unwrap_or_default(), pidfd) {
        ([b'P'], Some(pidfd)) => {
            let pid = pid_of(&pidfd, proc).map_err(Refused::System)?;
            Ok(Child { pid, pidfd })
        }
        ([step, a, b, c, d], _) => {
            let errno = Errno::from_raw_os_error(i32::from_ne_bytes([*a, *b, *c, *d]));
            let step = match *step {
                b'u' => "join namespaces",
                b'c' => "clone in user namespace",
                _ => "hand over from user namespace",
            };
            Err(Refused::Failed(step, errno))
        }
        (said, _) => match channel::parse(said) {
            Ok(failed @ Message::Failed { .. }) => Err(Refused::Init(failed)),
            Ok(Message::Closed) => Err(Refused::Died),
            _ => Err(Refused::System(sys::Error::new("recvmsg", "relay", Errno::PROTO))),
        },
    }
}

/// Whether there is a word to be heard, before the relay's end or after.
fn answers(relay: &OwnedFd, channel: &OwnedFd) -> Result<bool, Errno> {
    // The channel is looked at last: a relay that has ended has said what it had to say.
    let mut fds = [PollFd::new(relay, PollFlags::IN), PollFd::new(channel, PollFlags::IN)];
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
