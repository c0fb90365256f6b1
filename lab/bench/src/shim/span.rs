//! Measures the time from the exec of a shim's `start` to the exit of its `delete`, through the
//! kernel's process events connector (cn_proc, Linux 2.6.15). The connector does not trace
//! processes, and costs one message per event.
//!
//! containerd executes a shim's program twice for a task: to start the shim and, after the shim's connection closes, to
//! delete what the shim has left. Both processes are children of containerd, which has no other children: they are
//! found by their parent, since their command lines may be gone before they can be read.

use crate::base::*;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// CN_IDX_PROC and CN_VAL_PROC: the connector's index and value, and its multicast group.
const PROC: u32 = 1;
/// PROC_CN_MCAST_LISTEN.
const LISTEN: u32 = 1;
/// NLMSG_DONE.
const DONE: u16 = 3;
/// Lengths of struct nlmsghdr and struct cn_msg; a struct proc_event follows them.
const HEADER: usize = 16;
const MESSAGE: usize = 20;
/// Values of the field `what` of struct proc_event.
const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 0x8000_0000;
/// The receive buffer in bytes, for several seconds of events.
const BUFFER: usize = 16 << 20;

/// An event of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// The time in nanoseconds of the monotonic clock.
    at: u64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A child process was forked.
    Forked { parent: i32, child: i32 },
    /// A process has executed a program.
    Executed(i32),
    /// A process has exited.
    Ended(i32),
}

/// The kernel's process events since the listener was registered.
#[derive(Debug)]
pub(super) struct Events {
    socket: OwnedFd,
}

impl Events {
    /// Registers a listener for the kernel's process events.
    ///
    /// # Errors
    /// Those of socket(2), bind(2), send(2): EPROTONOSUPPORT or ECONNREFUSED if the kernel lacks these events.
    pub(super) fn listen() -> Result<Self, Error> {
        let no = || Error::errno("listen to", Path::new("process events"));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))
            .map_err(no())?;
        set_socket_recv_buffer_size_force(&socket, BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&socket, BUFFER))
            .map_err(no())?;
        bind(&socket, &SocketAddrNetlink::new(0, PROC)).map_err(no())?;
        send(&socket, &listen_message(), SendFlags::empty()).map_err(no())?;
        Ok(Self { socket })
    }

    /// Returns all events since the last call; `None` if some were lost.
    pub(super) fn take(&mut self) -> Option<Vec<Event>> {
        let mut events = Vec::new();
        let mut lost = false;
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((length, _)) => events.extend(parse(buffer.get(..length).unwrap_or_default())),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => lost = true,
                Err(_) => return (!lost).then_some(events),
            }
        }
    }
}

/// Returns the message that registers a listener.
fn listen_message() -> Vec<u8> {
    let length = (HEADER + MESSAGE + 4) as u32;
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(DONE.to_ne_bytes());
    // Flags, sequence, port.
    message.extend([0; 2 + 4 + 4]);
    message.extend(PROC.to_ne_bytes());
    message.extend(PROC.to_ne_bytes());
    // Sequence, acknowledgement.
    message.extend([0; 4 + 4]);
    message.extend(4_u16.to_ne_bytes());
    message.extend([0; 2]);
    message.extend(LISTEN.to_ne_bytes());
    message
}

/// Parses the event of a message; `None` for events of threads and for other kinds of events.
fn parse(message: &[u8]) -> Option<Event> {
    let event = message.get(HEADER + MESSAGE..)?;
    let word = |at: usize| -> Option<[u8; 4]> { event.get(at..at + 4)?.try_into().ok() };
    let pid = |at| word(at).map(i32::from_ne_bytes);
    let at = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    let what = match u32::from_ne_bytes(word(0)?) {
        // The fields are the parent's thread and process, and then the child's thread and process.
        FORK if pid(24)? == pid(28)? => What::Forked { parent: pid(20)?, child: pid(28)? },
        EXEC => What::Executed(pid(20)?),
        EXIT if pid(16)? == pid(20)? => What::Ended(pid(20)?),
        _ => return None,
    };
    Some(Event { at, what })
}

/// Returns the time from the first exec of a child of `daemon` to the last exit of a child that has executed a program,
/// in milliseconds.
pub(super) fn between(events: &[Event], daemon: i32) -> Option<f64> {
    let mut children = HashSet::new();
    let mut programs = HashSet::new();
    let (mut first, mut last) = (None, None);
    for Event { at, what } in events {
        match what {
            What::Forked { parent, child } if *parent == daemon => _ = children.insert(*child),
            What::Executed(pid) if children.contains(pid) => {
                programs.insert(*pid);
                first.get_or_insert(*at);
            }
            What::Ended(pid) if programs.contains(pid) => last = Some(*at),
            _ => {}
        }
    }
    // The programs are `start` and `delete`.
    (programs.len() >= 2).then_some(())?;
    Some(last?.checked_sub(first?)? as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(what: u32, at: u64, numbers: [i32; 4]) -> Vec<u8> {
        let mut message = vec![0; HEADER + MESSAGE];
        message.extend(what.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(at.to_ne_bytes());
        message.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        message
    }

    #[test]
    fn messages_of_processes_are_read() {
        let fork = parse(&message(FORK, 5, [11, 10, 20, 20]));
        assert_eq!(fork, Some(Event { at: 5, what: What::Forked { parent: 10, child: 20 } }));
        assert_eq!(parse(&message(FORK, 5, [11, 10, 12, 10])), None, "a thread");
        let exec = parse(&message(EXEC, 6, [21, 20, 0, 0]));
        assert_eq!(exec, Some(Event { at: 6, what: What::Executed(20) }));
        assert_eq!(parse(&message(EXIT, 7, [21, 20, 0, 17])), None, "a thread");
        let exit = parse(&message(EXIT, 7, [20, 20, 0, 17]));
        assert_eq!(exit, Some(Event { at: 7, what: What::Ended(20) }));
        assert_eq!(parse(&message(4, 7, [20; 4])), None);
        assert_eq!(parse(&[0; 40]), None);
    }

    #[test]
    fn a_span_is_from_start_to_delete() {
        let event = |at: u64, what| Event { at: at * 1_000_000, what };
        let mut events = vec![
            event(1, What::Forked { parent: 10, child: 20 }),
            event(2, What::Executed(20)),
            event(3, What::Forked { parent: 20, child: 30 }),
            event(4, What::Executed(30)),
            event(5, What::Ended(20)),
            event(6, What::Forked { parent: 10, child: 40 }),
            event(9, What::Ended(30)),
        ];
        assert_eq!(between(&events, 10), None, "no delete");
        events.extend([
            event(10, What::Executed(40)),
            event(12, What::Ended(40)),
            event(13, What::Ended(99)),
        ]);
        assert_eq!(between(&events, 10), Some(10.0));
        assert_eq!(between(&events, 11), None);
    }
}
