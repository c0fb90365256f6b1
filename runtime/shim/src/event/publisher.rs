//! The connection to containerd, and whose turn it is.
//!
//! Events go strictly one after the other: the next one is sent when the one before was answered. containerd's
//! ttrpc server has a goroutine for each call, also of the same connection, so that calls in flight together would
//! overtake each other, an exit its start. One whose answer did not come before the connection ended is sent again on
//! the next: containerd may see it twice, and not never. An answer may take as long as it likes (containerd may be
//! frozen); there is no time after which a call could be sent again without being there twice for sure.
//!
//! There is no connection until there is something to tell, and when it ends with nothing to tell it is not
//! made anew.

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

use super::doorway::Doorway;
use super::queue::{Item, Queue};
use super::{Event, now};
use crate::poller::{Interest, Poller, Source};

/// Parts of [`Source::Publisher`].
const CONNECTION: u8 = 0;
const DOORWAY: u8 = 1;

/// How long to wait before another try, at first and at most.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often an event is sent that containerd answers with an error, as by the Go shim (pkg/shim/publisher.go).
const TRIES: u32 = 5;
/// How often the nearest directory that there is may change while it is looked for.
const LOOKS: u32 = 8;
/// The longest event: what else is in a frame (namespace, topic, names of service and method) is less.
const LONGEST_EVENT: usize = LONGEST - (64 << 10);

/// Tells containerd what happens, in order, for as long as it takes.
#[derive(Debug)]
pub struct Publisher {
    /// The path of containerd's socket; without one nothing is told.
    path: Option<String>,
    namespace: String,
    queue: Queue,
    link: Link,
    /// Before the next try. Longer with each that fails, short again when one succeeds.
    pause: Duration,
    /// When the first event of the queue may be sent again, which was answered with an error, and how often it was.
    again: Option<Deadline>,
    refusals: u32,
    warning: Option<String>,
    /// Whether it was said that events are lost.
    has_warned: bool,
}

/// The connection, or how one is come by.
#[derive(Debug)]
enum Link {
    /// There is none, and nothing to tell.
    Down,
    /// There is nobody: until something changes at the socket's place, or until a time has come.
    Waiting { doorway: Option<Doorway>, until: Option<Deadline> },
    /// There is one.
    Up {
        client: Client,
        /// The call that waits for its answer.
        call: Option<u32>,
        /// What the socket is waited for.
        interest: Interest,
        /// Whether anything was answered on it.
        has_answered: bool,
    },
}

impl Publisher {
    /// For the socket at `address`, TTRPC_ADDRESS of the environment: a path, perhaps with `unix://` before it.
    /// Without one, or with an empty one, events are dropped.
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

    /// Tells an event, now or as soon as those before it are told.
    pub fn publish(&mut self, poller: &Poller, event: Event) {
        if self.path.is_none() {
            return;
        }
        let length = event.event.value.len();
        if length > LONGEST_EVENT {
            self.warn(format!("event {} of {length} bytes is too long to be told", event.topic));
            return;
        }
        let lost = self.queue.push(Item { event, time: now() });
        if lost > 0 && !mem::replace(&mut self.has_warned, true) {
            self.warn("containerd takes no events: the oldest of those that wait are lost".into());
        }
        self.advance(poller);
    }

    /// To be called when a descriptor of [`Source::Publisher`] is ready, with its part.
    pub fn ready(&mut self, poller: &Poller, part: u8, _interest: Interest) {
        match part {
            CONNECTION => self.receive(poller),
            DOORWAY => self.look(poller),
            _ => {}
        }
        self.advance(poller);
    }

    /// When [`Publisher::tick`] is to be called, if nothing else happens before.
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.link {
            Link::Waiting { until, .. } => *until,
            Link::Up { .. } => self.again,
            Link::Down => None,
        }
    }

    /// Does what was to be done at [`Publisher::deadline`]; nothing if it is too early.
    pub fn tick(&mut self, poller: &Poller) {
        if let Link::Waiting { until: Some(until), doorway } = &mut self.link
            && until.left().is_none()
        {
            let doorway = doorway.take();
            self.link = Link::Down;
            self.connect(poller, doorway);
        }
        self.advance(poller);
    }

    /// Whether everything was told.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// What is to be logged, once.
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// The first of several warnings that nobody asked for is the one that is kept.
    fn warn(&mut self, warning: String) {
        self.warning.get_or_insert(warning);
    }

    /// Goes as far as it can be gone without waiting.
    fn advance(&mut self, poller: &Poller) {
        if matches!(self.link, Link::Down) && !self.queue.is_empty() {
            self.connect(poller, None);
        }
        // A connection that is there but ends at once is tried again later, so that this ends.
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

    /// Reads answers.
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

    /// containerd would not have the event. It may be about to end, or not ready; but what it never takes must not
    /// keep the others.
    fn refused(&mut self, status: &Status) {
        self.refusals += 1;
        if self.refusals < TRIES {
            self.queue.set_sent(false);
            self.again = Some(self.next_try());
            return;
        }
        let topic = self.queue.pop().map_or("", |item| item.event.topic);
        self.refusals = 0;
        self.warn(format!("containerd does not take event {topic}: {status}"));
    }

    /// Ends the connection, which is of no use any more.
    fn lose(&mut self, poller: &Poller) {
        let Link::Up { client, has_answered, .. } = mem::replace(&mut self.link, Link::Down) else {
            return;
        };
        // A worker may still have a copy of it.
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
            // Whoever took the connection would not talk.
            self.wait(poller, None, true);
        }
    }

    /// Has a look because something has changed at the socket's place.
    fn look(&mut self, poller: &Poller) {
        let Link::Waiting { doorway: Some(doorway), .. } = &self.link else { return };
        if !doorway.has_changed() {
            return;
        }
        self.leave(poller);
        self.pause = SHORTEST;
        self.connect(poller, None);
    }

    /// Stops to wait.
    fn leave(&mut self, poller: &Poller) {
        if let Link::Waiting { doorway: Some(doorway), .. } =
            mem::replace(&mut self.link, Link::Down)
        {
            let _ = poller.remove(doorway.fd());
        }
    }

    /// Makes a connection, or waits until one can be made. `doorway` is one that is registered.
    fn connect(&mut self, poller: &Poller, mut doorway: Option<Doorway>) {
        let Some(path) = &self.path else { return };
        // Watched first and looked at then, so that no change is missed. What is watched is a directory that may
        // itself be replaced while this goes on.
        let mut errno = match dial(path) {
            Ok(socket) => return self.begin(poller, doorway, socket),
            Err(errno) => errno,
        };
        for _ in 0..LOOKS {
            if doorway.is_none() {
                doorway = self.doorway(poller);
            }
            let Some(door) = &doorway else { break };
            match dial(path) {
                Ok(socket) => return self.begin(poller, doorway, socket),
                Err(error) => errno = error,
            }
            if !door.has_changed() && !door.is_passed() {
                break;
            }
            let _ = poller.remove(door.fd());
            doorway = None;
        }
        // Of a socket that is there nobody tells when it takes connections; a directory that cannot be watched tells
        // nothing at all.
        let is_timed = errno != Errno::NOENT || doorway.is_none();
        self.wait(poller, doorway, is_timed);
    }

    fn doorway(&self, poller: &Poller) -> Option<Doorway> {
        let doorway = Doorway::watch(self.path.as_ref()?).ok()?;
        poller.add(doorway.fd(), Source::Publisher(DOORWAY), Interest::IN).ok()?;
        Some(doorway)
    }

    fn begin(&mut self, poller: &Poller, doorway: Option<Doorway>, socket: OwnedFd) {
        if let Some(doorway) = doorway {
            let _ = poller.remove(doorway.fd());
        }
        let client = Client::new(socket);
        let interest = Interest::IN;
        match poller.add(client.fd(), Source::Publisher(CONNECTION), interest) {
            Ok(()) => self.link = Link::Up { client, call: None, interest, has_answered: false },
            // No memory: later.
            Err(_) => self.wait(poller, None, true),
        }
    }

    fn wait(&mut self, poller: &Poller, doorway: Option<Doorway>, is_timed: bool) {
        let doorway = doorway.or_else(|| self.doorway(poller));
        let until = is_timed.then(|| self.next_try());
        self.link = Link::Waiting { doorway, until };
    }

    fn next_try(&mut self) -> Deadline {
        let pause = self.pause;
        self.pause = LONGEST_WAIT.min(pause * 2);
        Deadline::after(pause)
    }
}

/// The call of `Forward`, encoded.
fn request(namespace: &str, item: &Item) -> alloc::vec::Vec<u8> {
    let envelope = Envelope {
        timestamp: Some(item.time.clone()),
        namespace: namespace.to_string(),
        topic: item.event.topic.to_string(),
        event: Some(item.event.event.clone()),
    };
    ForwardRequest { envelope: Some(envelope) }.encode()
}

/// Connects without waiting: that of a Unix socket is done at once, or EAGAIN where too many wait to be accepted.
pub(crate) fn dial(path: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
