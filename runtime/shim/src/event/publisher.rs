//! The connection to containerd, and the order of events.
//!
//! Only one event is in flight at a time: the next is sent after the answer to the previous one. containerd's ttrpc
//! server runs a goroutine for each call, even on the same connection, so concurrent calls could overtake each other:
//! for example, a process's exit could arrive before its start. If the connection closes before the answer, the event
//! is sent again on the next connection: containerd may receive an event twice, but never misses one. There is no time
//! limit for an answer, because containerd may be frozen: with any time limit, a repeated call could be a duplicate.
//!
//! The connection is opened when there is an event to send. If it closes while the queue is empty, it is not reopened.

use alloc::format;
use alloc::string::{String, ToString};
use core::mem;
use core::time::Duration;

use proto::messages::events::{Envelope, FORWARD, ForwardRequest, SERVICE};
use proto::ttrpc::frame::LONGEST;
use proto::ttrpc::{Client, Status};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sys::wait::Deadline;

use super::Event;
use super::queue::{Item, Queue};
use super::socket_watch::SocketWatch;
use crate::poller::{Interest, Poller, Source};
use crate::table::Time;

/// Parts of [`Source::Publisher`].
const CONNECTION: u8 = 0;
const SOCKET_WATCH: u8 = 1;

/// The delay before the next attempt to connect: initial and maximum value.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The maximum number of times an event is sent if containerd answers with an error; as in the Go shim
/// (pkg/shim/publisher.go).
const TRIES: u32 = 5;
/// The number of times that the nearest existing directory may change while the publisher searches
/// for it.
const LOOKS: u32 = 8;
/// The maximum size of an event in bytes. The subtracted size is more than the rest of a frame needs (namespace, topic,
/// service and method names).
const LONGEST_EVENT: usize = LONGEST - (64 << 10);

/// Publishes events to containerd, in order. An event is kept until it can be sent.
#[derive(Debug)]
pub struct Publisher {
    /// The path of containerd's socket. If there is none, events are dropped.
    path: Option<String>,
    namespace: String,
    queue: Queue,
    link: Link,
    /// The delay before the next attempt. It grows with each failure and is reset by a success.
    pause: Duration,
    /// After an error: the time from which the first event of the queue may be sent again. `refusals` counts the
    /// errors.
    again: Option<Deadline>,
    refusals: u32,
    warning: Option<String>,
    /// Whether the loss of events was already logged.
    has_warned: bool,
}

/// The state of the connection.
#[derive(Debug)]
enum Link {
    /// No connection, and no event to send.
    Down,
    /// No server accepts connections: waits for a change at the socket's path, for a deadline, or for both.
    Waiting { watch: Option<SocketWatch>, until: Option<Deadline> },
    /// A connection.
    Up {
        client: Client,
        /// The stream of the call whose answer is awaited.
        call: Option<u32>,
        /// The events polled on the socket.
        interest: Interest,
        /// Whether any answer was received on the connection.
        has_answered: bool,
    },
}

impl Publisher {
    /// Returns a publisher for the socket at `address`, the value of TTRPC_ADDRESS: a path, optionally prefixed with
    /// `unix://`. If the address is missing or empty, events are dropped.
    pub fn new(address: Option<&str>, namespace: &str) -> Self {
        let path = address.map(|address| address.strip_prefix("unix://").unwrap_or(address));
        Self {
            path: path.filter(|path| !path.is_empty()).map(String::from),
            namespace: namespace.to_string(),
            queue: Queue::default(),
            link: Link::Down,
            pause: SHORTEST,
            again: None,
            refusals: 0,
            warning: None,
            has_warned: false,
        }
    }

    /// Publishes an event: at once, or after all events that are already queued.
    pub fn publish(&mut self, poller: &Poller, event: Event) {
        if self.path.is_none() {
            return;
        }
        let length = event.event.value.len();
        if length > LONGEST_EVENT {
            self.warn(format!("event {} of {length} bytes is too long to be sent", event.topic));
            return;
        }
        let lost = self.queue.push(Item { event, time: Time::now().to_message() });
        if lost > 0 && !mem::replace(&mut self.has_warned, true) {
            self.warn("containerd takes no events: the oldest queued events are lost".into());
        }
        self.advance(poller);
    }

    /// Handles a ready descriptor of [`Source::Publisher`], given its part.
    pub fn ready(&mut self, poller: &Poller, part: u8, _interest: Interest) {
        match part {
            CONNECTION => self.receive(poller),
            SOCKET_WATCH => self.look(poller),
            _ => {}
        }
        self.advance(poller);
    }

    /// Returns the time by which [`Publisher::tick`] must be called.
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.link {
            Link::Waiting { until, .. } => *until,
            Link::Up { .. } => self.again,
            Link::Down => None,
        }
    }

    /// Does the work that is due at [`Publisher::deadline`]; before that time, does nothing.
    pub fn tick(&mut self, poller: &Poller) {
        if let Link::Waiting { until: Some(until), watch } = &mut self.link
            && until.left().is_none()
        {
            let watch = watch.take();
            self.link = Link::Down;
            self.connect(poller, watch);
        }
        self.advance(poller);
    }

    /// Returns whether all events were sent and answered.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Removes and returns the warning that should be logged, if any.
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Stores a warning, unless an earlier one was not taken yet.
    fn warn(&mut self, warning: String) {
        self.warning.get_or_insert(warning);
    }

    /// Does everything that is possible without waiting.
    fn advance(&mut self, poller: &Poller) {
        if matches!(self.link, Link::Down) && !self.queue.is_empty() {
            self.connect(poller, None);
        }
        // This loop ends: if a new connection closes at once, the next attempt is delayed.
        while let Link::Up { client, call, interest, .. } = &mut self.link {
            let is_early = self.again.is_some_and(|again| again.left().is_some());
            if let (None, Some(item), false) = (&call, self.queue.next(), is_early) {
                let request = request(&self.namespace, item);
                *call = Some(client.call(SERVICE, FORWARD, request));
                self.again = None;
                self.queue.set_sent(true);
            }
            let mut wanted = Interest::IN;
            let is_written = client.flush().is_ok();
            if client.wants_to_write() {
                wanted |= Interest::OUT;
            }
            let source = Source::Publisher(CONNECTION);
            if is_written
                && (wanted == *interest || poller.modify(client.fd(), source, wanted).is_ok())
            {
                *interest = wanted;
                return;
            }
            self.lose(poller);
        }
    }

    /// Reads answers from containerd.
    fn receive(&mut self, poller: &Poller) {
        let Link::Up { client, call, has_answered, .. } = &mut self.link else { return };
        let Ok(answers) = client.receive() else { return self.lose(poller) };
        let Some(result) = answers
            .into_iter()
            .find_map(|(stream, result)| (Some(stream) == *call).then_some(result))
        else {
            return;
        };
        *call = None;
        *has_answered = true;
        match result {
            Ok(_) => self.told(),
            Err(status) => self.refused(&status),
        }
    }

    fn told(&mut self) {
        self.queue.pop();
        self.refusals = 0;
        self.pause = SHORTEST;
    }

    /// Handles an error in containerd's answer. containerd may be about to exit, or may not be ready yet. An event that
    /// containerd never accepts is dropped after [`TRIES`] attempts, so that it does not block the events after it.
    fn refused(&mut self, status: &Status) {
        self.refusals += 1;
        if self.refusals < TRIES {
            self.queue.set_sent(false);
            self.again = Some(self.next_try());
            return;
        }
        let topic = self.queue.pop().map_or("", |item| item.event.topic);
        self.refusals = 0;
        self.warn(format!("containerd does not accept event {topic}: {status}"));
    }

    /// Closes a connection that has failed.
    fn lose(&mut self, poller: &Poller) {
        let Link::Up { client, has_answered, .. } = mem::replace(&mut self.link, Link::Down) else {
            return;
        };
        // The descriptor is removed explicitly, because a worker may still have a copy of it.
        let _ = poller.remove(client.fd());
        drop(client);
        self.queue.set_sent(false);
        self.again = None;
        if self.queue.is_empty() {
            return;
        }
        if has_answered {
            self.connect(poller, None);
        } else {
            // The server accepted the connection but did not answer.
            self.wait(poller, None, true);
        }
    }

    /// Handles a change at the socket's path: checks whether the socket exists now.
    fn look(&mut self, poller: &Poller) {
        let Link::Waiting { watch: Some(watch), .. } = &self.link else { return };
        if !watch.has_changed() {
            return;
        }
        self.leave(poller);
        self.pause = SHORTEST;
        self.connect(poller, None);
    }

    /// Ends the watch for the socket.
    fn leave(&mut self, poller: &Poller) {
        if let Link::Waiting { watch: Some(watch), .. } = mem::replace(&mut self.link, Link::Down) {
            let _ = poller.remove(watch.fd());
        }
    }

    /// Connects. If no server accepts the connection, changes to the state `Link::Waiting`. The given `watch` is
    /// already in the poller.
    fn connect(&mut self, poller: &Poller, mut watch: Option<SocketWatch>) {
        let Some(path) = &self.path else { return };
        // The watch is set before the path is checked, so that no change is missed. Meanwhile the watched directory may
        // itself be replaced.
        let mut errno = match dial(path) {
            Ok(socket) => return self.begin(poller, watch, socket),
            Err(errno) => errno,
        };
        for _ in 0..LOOKS {
            if watch.is_none() {
                watch = self.watch(poller);
            }
            let Some(current) = &watch else { break };
            match dial(path) {
                Ok(socket) => return self.begin(poller, watch, socket),
                Err(error) => errno = error,
            }
            if !current.has_changed() && !current.is_passed() {
                break;
            }
            let _ = poller.remove(current.fd());
            watch = None;
        }
        // A timer is needed in two cases: an existing socket causes no inotify event when it starts to accept
        // connections, and a directory that cannot be watched causes no events at all.
        let is_timed = errno != Errno::NOENT || watch.is_none();
        self.wait(poller, watch, is_timed);
    }

    fn watch(&self, poller: &Poller) -> Option<SocketWatch> {
        let watch = SocketWatch::watch(self.path.as_ref()?).ok()?;
        poller.add(watch.fd(), Source::Publisher(SOCKET_WATCH), Interest::IN).ok()?;
        Some(watch)
    }

    fn begin(&mut self, poller: &Poller, watch: Option<SocketWatch>, socket: OwnedFd) {
        if let Some(watch) = watch {
            let _ = poller.remove(watch.fd());
        }
        let client = Client::new(socket);
        let interest = Interest::IN;
        match poller.add(client.fd(), Source::Publisher(CONNECTION), interest) {
            Ok(()) => self.link = Link::Up { client, call: None, interest, has_answered: false },
            // There is not enough memory: another attempt follows later.
            Err(_) => self.wait(poller, None, true),
        }
    }

    fn wait(&mut self, poller: &Poller, watch: Option<SocketWatch>, is_timed: bool) {
        let watch = watch.or_else(|| self.watch(poller));
        let until = is_timed.then(|| self.next_try());
        self.link = Link::Waiting { watch, until };
    }

    fn next_try(&mut self) -> Deadline {
        let pause = self.pause;
        self.pause = LONGEST_WAIT.min(pause * 2);
        Deadline::after(pause)
    }
}

/// Returns the encoded request of a call to `Forward`.
fn request(namespace: &str, item: &Item) -> alloc::vec::Vec<u8> {
    let envelope = Envelope {
        timestamp: Some(item.time.clone()),
        namespace: namespace.to_string(),
        topic: item.event.topic.to_string(),
        event: Some(item.event.event.clone()),
    };
    ForwardRequest { envelope: Some(envelope) }.encode()
}

/// Connects without blocking: on a Unix socket, connect(2) either succeeds at once or fails, with EAGAIN if the backlog
/// is full.
pub(crate) fn dial(path: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
