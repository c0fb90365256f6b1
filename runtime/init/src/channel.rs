//! The messages between parent and init, over one socket.
//!
//! Init does not ask for permission before a step. It sends `Hooks` when its namespaces exist (only if the parent waits
//! for this message), `Listener` when a filter with a listener is loaded, `Ready` when the set-up is complete, and
//! `Failed` when a step fails. Each message from the parent is one byte. All descriptors of init are close-on-exec, so
//! the socket closes when init executes the container's program.

use rustix::fd::{AsFd, OwnedFd, RawFd};
use rustix::io::{Errno, read, write};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::failure::Failure;

/// The length of the longest message in bytes.
pub const LONGEST: usize = 256;
const HEADER: usize = 7;
/// The number of steps that messages and trace records can tell apart. A plan has fewer.
pub const MOST_STEPS: usize = u16::MAX as usize;

/// A message from init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a failure carries its text: there is no heap")]
pub enum Message {
    /// prestart and createRuntime hooks may run.
    Hooks,
    /// The filter is loaded. The number is the listener's descriptor in init.
    Listener(i32),
    /// Everything before `start` is done.
    Ready,
    /// An intermediate has created init; the message carries init's pidfd.
    Delivered,
    /// A step failed.
    Failed {
        /// The step's index in the plan's init list.
        step: usize,
        /// Init's description of the failure, and the errno.
        failure: Failure,
    },
    /// The socket is closed.
    Closed,
    /// The socket was closed before init had read every message from the parent: init exited before exec.
    Died,
}

/// A message from the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Id mappings and limits are in place.
    Admitted = b'a' as isize,
    /// The parent has moved init to its cgroups. Sent only if an intermediate could not create init there, because the
    /// PID limit left no room for both processes.
    Moved = b'm' as isize,
    /// The hooks have run.
    HooksDone = b'h' as isize,
    /// The filter's agent has the listener.
    ListenerSent = b'l' as isize,
    /// The new process is recorded.
    Commit = b'c' as isize,
    /// As `Commit`, with the pidfd of a process that a template has forked to run as the program.
    Forked = b'f' as isize,
    /// Run the program (sent by the `start` command).
    Start = b's' as isize,
}

/// Creates a pair of connected sockets: the parent's end and init's end.
///
/// # Errors
/// The errors of socketpair(2).
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message to init.
///
/// # Errors
/// EPIPE if init is gone.
pub fn say(fd: impl AsFd, word: Word) -> Result<(), Errno> {
    send(fd, &[word as u8], SendFlags::NOSIGNAL).map(drop)
}

/// Waits for the message `word` from the parent.
///
/// # Errors
/// EPIPE if the parent is gone, EPROTO if a different message arrives.
pub fn expect(fd: impl AsFd, word: Word) -> Result<(), Errno> {
    let mut byte = [0u8; 1];
    loop {
        match read(fd.as_fd(), &mut byte) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(_) if byte == [word as u8] => return Ok(()),
            Ok(_) => return Err(Errno::PROTO),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits for the message [`Word::Commit`] or [`Word::Forked`] from the parent; returns the pidfd of the latter.
///
/// # Errors
/// EPIPE if the parent is gone, EPROTO if a different message arrives.
pub fn expect_commit(fd: impl AsFd) -> Result<Option<OwnedFd>, Errno> {
    const COMMIT: u8 = Word::Commit as u8;
    const FORKED: u8 = Word::Forked as u8;
    let mut byte = [0u8; 1];
    match (sys::fdpass::receive(fd, &mut byte)?, byte) {
        ((0, _), _) => Err(Errno::PIPE),
        ((_, None), [COMMIT]) => Ok(None),
        ((_, Some(program)), [FORKED]) => Ok(Some(program)),
        _ => Err(Errno::PROTO),
    }
}

/// Returns whether the other end is open.
pub fn is_open(fd: impl AsFd) -> bool {
    let mut byte = [0u8; 1];
    recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT).err() == Some(Errno::AGAIN)
}

/// Reports that init has reached a point of the start.
///
/// # Errors
/// EPIPE if the parent is gone.
pub fn announce(fd: impl AsFd, message: &Message) -> Result<(), Errno> {
    let kind = match message {
        Message::Hooks => b'H',
        Message::Ready => b'R',
        Message::Delivered => b'P',
        Message::Listener(_) | Message::Failed { .. } | Message::Closed | Message::Died => {
            return Err(Errno::INVAL);
        }
    };
    send(fd, &[kind], SendFlags::NOSIGNAL).map(drop)
}

/// Reports the number of the filter's listener. Uses write(2), because a filter may not pass this call to the agent:
/// the agent receives the listener only after this message, so it could not answer earlier.
///
/// # Errors
/// Those of write(2); if the parent is gone, SIGPIPE kills init.
pub fn announce_listener(fd: impl AsFd, listener: RawFd) -> Result<(), Errno> {
    let [a, b, c, d] = listener.to_ne_bytes();
    write(fd, &[b'L', a, b, c, d]).map(drop)
}

/// Reports that step number `step` failed; best effort.
pub fn report(fd: impl AsFd, step: usize, failure: &Failure) {
    let mut bytes = [0u8; LONGEST];
    let text = failure.text();
    let length = text.len().min(LONGEST - HEADER);
    let (header, rest) = bytes.split_at_mut(HEADER);
    let step = u16::try_from(step).unwrap_or(u16::MAX).to_ne_bytes();
    let errno = failure.errno.raw_os_error().to_ne_bytes();
    let fields = core::iter::once(b'E').chain(step).chain(errno);
    for (to, from) in header.iter_mut().zip(fields) {
        *to = from;
    }
    for (to, from) in rest.iter_mut().zip(text) {
        *to = *from;
    }
    let bytes = bytes.get(..HEADER + length).unwrap_or_default();
    // A loaded filter may forbid one of the calls.
    if let Err(Errno::PERM | Errno::NOSYS | Errno::ACCESS) =
        send(fd.as_fd(), bytes, SendFlags::NOSIGNAL)
    {
        let _ = write(fd, bytes);
    }
}

/// Waits for the next message from init.
///
/// # Errors
/// Those of read(2); EPROTO for a malformed message.
pub fn listen(fd: impl AsFd) -> Result<Message, Errno> {
    let mut bytes = [0u8; LONGEST];
    let mut unread = false;
    let length = loop {
        match read(fd.as_fd(), &mut bytes) {
            Err(Errno::INTR) => {}
            // Init closed the socket before it had read all of the parent's messages. The first read returns this
            // error; later reads return the messages that init sent before.
            Err(Errno::CONNRESET) if !unread => unread = true,
            result => break result?,
        }
    };
    match bytes.get(..length).unwrap_or_default() {
        [] if unread => Ok(Message::Died),
        said => parse(said),
    }
}

/// Returns init's report of a failure, if init has sent one. Does not wait.
pub fn heard_failure(fd: impl AsFd) -> Option<Message> {
    let mut bytes = [0u8; LONGEST];
    // A report of a failure is init's last message, so other unread messages may come first. recv(2) may also return
    // ECONNRESET first, if init has not read all of the parent's messages.
    for _ in 0..4 {
        match recv(fd.as_fd(), &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return None,
            Ok((_, length)) => {
                let said = parse(bytes.get(..length).unwrap_or_default());
                if let Ok(failed @ Message::Failed { .. }) = said {
                    return Some(failed);
                }
            }
            Err(Errno::CONNRESET | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Parses a message.
///
/// # Errors
/// EPROTO if the message is malformed.
pub fn parse(bytes: &[u8]) -> Result<Message, Errno> {
    match bytes {
        [] => Ok(Message::Closed),
        [b'H'] => Ok(Message::Hooks),
        [b'L', a, b, c, d] => Ok(Message::Listener(i32::from_ne_bytes([*a, *b, *c, *d]))),
        [b'R'] => Ok(Message::Ready),
        [b'P'] => Ok(Message::Delivered),
        [b'E', s0, s1, e0, e1, e2, e3, text @ ..] => Ok(Message::Failed {
            step: usize::from(u16::from_ne_bytes([*s0, *s1])),
            failure: Failure::said(
                text,
                Errno::from_raw_os_error(i32::from_ne_bytes([*e0, *e1, *e2, *e3])),
            ),
        }),
        _ => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_arrives_whole_and_the_end_is_seen() {
        let (host, init) = pair().unwrap();
        report(&init, 300, &Failure::new("fsopen", Errno::NODEV).with(b"unknown \"nofs\""));
        announce(&init, &Message::Ready).unwrap();
        announce_listener(&init, 77).unwrap();
        let Message::Failed { step, failure } = listen(&host).unwrap() else { panic!() };
        assert_eq!((step, failure.errno), (300, Errno::NODEV));
        assert_eq!(failure.text(), b"fsopen: unknown \"nofs\"");
        assert_eq!(listen(&host).unwrap(), Message::Ready);
        assert_eq!(listen(&host).unwrap(), Message::Listener(77));
        say(&host, Word::Commit).unwrap();
        assert_eq!(expect(&init, Word::Admitted), Err(Errno::PROTO));
        drop(init);
        assert_eq!(listen(&host).unwrap(), Message::Closed);
    }

    #[test]
    fn last_message_survives_reset() {
        let (host, init) = pair().unwrap();
        report(&init, 7, &Failure::new("stat", Errno::NOENT));
        say(&host, Word::Commit).unwrap();
        drop(init);
        assert!(matches!(listen(&host).unwrap(), Message::Failed { step: 7, .. }));
        assert_eq!(listen(&host).unwrap(), Message::Closed);
        let (host, init) = pair().unwrap();
        say(&host, Word::Commit).unwrap();
        drop(init);
        assert_eq!(listen(&host).unwrap(), Message::Died);
    }
}
