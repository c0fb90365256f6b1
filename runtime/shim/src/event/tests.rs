//! Tests of the publisher with a fake containerd that answers, stops, freezes, and restarts.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use proto::messages::events::{FORWARD, ForwardRequest, SERVICE};
use proto::messages::time::Empty;
use proto::ttrpc::{Connection, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};

use super::*;
use crate::poller::{Poller, Source};

pub(super) fn now() -> Timestamp {
    crate::table::Time::now().to_message()
}

/// A directory that is removed at the end of a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("dayfly-event-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The reaction of the fake containerd to a call.
enum Reply {
    Answer,
    Refuse,
    /// Closes the connection, as if the process was killed.
    Hang,
}

/// A fake containerd: a thread that serves one connection after another.
struct Containerd {
    thread: JoinHandle<()>,
    stop: OwnedFd,
    events: Receiver<(String, String)>,
}

impl Containerd {
    fn at(path: &str) -> Self {
        Self::with(listener(path, 8), |_| Reply::Answer)
    }

    /// Returns a fake containerd. `reply` is called with the number of previous calls.
    fn with(listener: OwnedFd, reply: impl Fn(usize) -> Reply + Send + 'static) -> Self {
        let (stopped, stop) = rustix::pipe::pipe().unwrap();
        let (sender, events) = channel();
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while is_ready(&listener, &stopped) {
                serve(accept(&listener).unwrap(), &stopped, &sender, &mut count, &reply);
            }
        });
        Self { thread, stop, events }
    }

    /// Ends the fake as if it was killed: the socket's file remains and refuses connections. Returns the received
    /// events.
    fn end(self) -> Vec<(String, String)> {
        drop(self.stop);
        self.thread.join().unwrap();
        self.events.try_iter().collect()
    }
}

fn unbound() -> OwnedFd {
    socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()
}

fn listener(path: &str, backlog: i32) -> OwnedFd {
    let server = unbound();
    bind(&server, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&server, backlog).unwrap();
    server
}

fn is_ready(fd: &impl AsFd, stopped: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    poll(&mut fds, None).unwrap();
    fds[1].revents().is_empty()
}

fn serve(
    socket: OwnedFd,
    stopped: &OwnedFd,
    sender: &Sender<(String, String)>,
    count: &mut usize,
    reply: &impl Fn(usize) -> Reply,
) {
    let mut connection = Connection::new(socket);
    while is_ready(&connection.fd(), stopped) {
        let Ok(calls) = connection.receive() else { return };
        assert!(connection.open() <= 1, "one at a time");
        for call in calls {
            assert_eq!((call.service.as_str(), call.method.as_str()), (SERVICE, FORWARD));
            let envelope = ForwardRequest::decode(&call.payload).unwrap().envelope.unwrap();
            assert_eq!(envelope.namespace, "k8s.io");
            assert!(envelope.timestamp.unwrap().seconds > 1_600_000_000);
            let event = envelope.event.unwrap();
            let exec = event.unpack::<TaskExit>().unwrap().map_or(String::new(), |exit| exit.id);
            let nth = *count;
            *count += 1;
            match reply(nth) {
                Reply::Answer => {
                    connection.respond(call.stream, Ok(Empty {}.encode()));
                    sender.send((envelope.topic, exec)).unwrap();
                }
                Reply::Refuse => {
                    connection.respond(call.stream, Err(Status::unavailable("not now")));
                }
                Reply::Hang => return,
            }
        }
        connection.flush().unwrap();
        assert!(!connection.wants_to_write());
    }
}

/// A loop like the shim's, which contains only the publisher.
struct Loop {
    poller: Poller,
    publisher: Publisher,
}

impl Loop {
    fn new(path: &str) -> Self {
        let publisher = Publisher::new(Some(path), "k8s.io");
        Self { poller: Poller::new().unwrap(), publisher }
    }

    fn publish(&mut self, event: Event) {
        self.publisher.publish(&self.poller, event);
    }

    /// Waits for events, and handles them. Returns false if no event occurred within `limit`.
    fn turn(&mut self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).unwrap();
        let left = self.publisher.deadline().map(|at| at.left().unwrap_or_default());
        let ready = self.poller.wait(Some(&left.unwrap_or(limit))).unwrap();
        for (source, interest) in &ready {
            let Source::Publisher(part) = source else { panic!("{source:?}") };
            self.publisher.ready(&self.poller, *part, *interest);
        }
        self.publisher.tick(&self.poller);
        !ready.is_empty() || left.is_some()
    }

    fn until_idle(&mut self) {
        while !self.publisher.is_idle() {
            assert!(self.turn(Duration::from_secs(20)), "stuck: {:?}", self.publisher);
        }
    }

    /// Handles events until none is ready, or until the publisher has a deadline.
    fn rest(&mut self) {
        while self.publisher.deadline().is_none() && self.turn(Duration::ZERO) {}
    }
}

fn exit(exec: usize) -> Event {
    Event::exit("c", &format!("e{exec}"), 7, 137, now())
}

fn exits(numbers: impl Iterator<Item = usize>) -> Vec<(String, String)> {
    numbers.map(|number| ("/tasks/exit".into(), format!("e{number}"))).collect()
}

#[test]
fn everything_is_told_in_order() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let containerd = Containerd::at(&path);
    let mut events = Loop::new(&format!("unix://{path}"));
    let create =
        TaskCreate { container_id: "c".into(), bundle: "/b".into(), ..TaskCreate::default() };
    let all = [
        Event::create(&create),
        Event::start("c", 7),
        Event::exec_added("c", "e0"),
        Event::exec_started("c", "e0", 8),
        Event::paused("c"),
        Event::resumed("c"),
        Event::checkpointed("c", "/x"),
        exit(0),
        Event::oom("c"),
        Event::exit("c", "", 7, 0, now()),
        Event::delete("c", 7, 0, now()),
    ];
    all.into_iter().for_each(|event| events.publish(event));
    events.until_idle();
    assert_eq!(events.publisher.take_warning(), None);
    let told = containerd.end();
    let topics: Vec<_> =
        told.iter().map(|(topic, _)| topic.strip_prefix("/tasks/").unwrap()).collect();
    assert_eq!(
        topics,
        [
            "create",
            "start",
            "exec-added",
            "exec-started",
            "paused",
            "resumed",
            "checkpointed",
            "exit",
            "oom",
            "exit",
            "delete"
        ]
    );
    assert_eq!((told[7].1.as_str(), told[9].1.as_str()), ("e0", "c"));
}

#[test]
fn an_event_whose_answer_was_lost_is_told_again() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    // The third call is received, but not answered.
    let dies = |nth| if nth == 2 { Reply::Hang } else { Reply::Answer };
    let containerd = Containerd::with(listener(&path, 8), dies);
    let mut events = Loop::new(&path);
    (0..6).for_each(|number| events.publish(exit(number)));
    events.until_idle();
    assert_eq!(containerd.end(), exits(0..6));
}

#[test]
fn a_connection_that_ends_at_once_is_not_made_over_and_over() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let dies = |nth| if nth < 2 { Reply::Hang } else { Reply::Answer };
    let containerd = Containerd::with(listener(&path, 8), dies);
    let mut events = Loop::new(&path);
    events.publish(exit(0));
    events.rest();
    while events.publisher.deadline().is_none() {
        assert!(events.turn(Duration::from_secs(20)));
    }
    events.until_idle();
    assert_eq!(containerd.end(), exits(0..1));
}

#[test]
fn containerd_is_started_anew() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let containerd = Containerd::at(&path);
    let mut events = Loop::new(&path);
    events.publish(exit(0));
    events.until_idle();
    assert_eq!(containerd.end(), exits(0..1));
    // There is nothing to send, so the publisher makes no connection and waits for nothing.
    events.rest();
    assert!(events.publisher.deadline().is_none() && !events.turn(Duration::ZERO));
    // The socket exists and refuses connections, so the publisher uses a timer.
    (1..4).for_each(|number| events.publish(exit(number)));
    assert!(events.publisher.deadline().is_some());
    fs::remove_file(&path).unwrap();
    let containerd = Containerd::at(&path);
    events.until_idle();
    assert_eq!(containerd.end(), exits(1..4));
}

#[test]
fn a_socket_that_is_not_there_is_waited_for_without_a_timer() {
    let scratch = Scratch::new();
    let path = scratch.path("run/containerd/s");
    let mut events = Loop::new(&path);
    events.publish(exit(0));
    // The creation of each directory wakes the publisher; changes of unrelated files do not matter.
    for directory in ["run", "other", "run/containerd", "run/containerd/other"] {
        assert!(events.publisher.deadline().is_none());
        fs::create_dir(scratch.path(directory)).unwrap();
        events.rest();
        assert!(!events.publisher.is_idle());
    }
    // The directories are removed, and all created again.
    fs::remove_dir_all(scratch.path("run")).unwrap();
    events.rest();
    assert!(events.publisher.deadline().is_none());
    fs::create_dir_all(scratch.path("run/containerd")).unwrap();
    events.rest();
    // The socket is created under another name, and then renamed.
    let listener = listener(&scratch.path("run/containerd/new"), 8);
    events.rest();
    assert!(events.publisher.deadline().is_none());
    fs::rename(scratch.path("run/containerd/new"), &path).unwrap();
    let containerd = Containerd::with(listener, |_| Reply::Answer);
    events.until_idle();
    assert_eq!(containerd.end(), exits(0..1));
}

#[test]
fn a_socket_that_does_not_listen_yet() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let mut events = Loop::new(&path);
    events.publish(exit(0));
    assert!(events.publisher.deadline().is_none());
    let server = unbound();
    bind(&server, &SocketAddrUnix::new(path.as_str()).unwrap()).unwrap();
    events.rest();
    assert!(events.publisher.deadline().is_some());
    // A server sets the socket's mode last, so the publisher need not wait for the timer.
    listen(&server, 8).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let early = events.poller.wait(None).unwrap();
    assert_eq!(early.len(), 1);
    events.publisher.ready(&events.poller, 1, early[0].1);
    assert!(events.publisher.deadline().is_none());
    let containerd = Containerd::with(server, |_| Reply::Answer);
    events.until_idle();
    assert_eq!(containerd.end(), exits(0..1));
}

#[test]
fn a_frozen_containerd_loses_no_exit() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let listener = listener(&path, 8);
    let mut events = Loop::new(&path);
    for number in 0..10_000 {
        events.publish(Event::exec_started("c", &format!("e{number}"), 7));
        events.publish(exit(number));
        events.publish(Event::oom("c"));
    }
    events.rest();
    assert!(events.publisher.deadline().is_none(), "it waits for the answer");
    assert!(events.publisher.take_warning().is_some());
    assert!(events.publisher.take_warning().is_none());
    let containerd = Containerd::with(listener, |_| Reply::Answer);
    events.until_idle();
    let told = containerd.end();
    let order = told.iter().filter(|(topic, _)| topic == "/tasks/exit");
    assert!(order.cloned().eq(exits(0..10_000)));
    assert_eq!(told.iter().filter(|(topic, _)| topic == "/tasks/oom").count(), 1);
}

#[test]
fn a_full_backlog() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let listener = listener(&path, 0);
    let others: Vec<_> = core::iter::from_fn(|| super::publisher::dial(&path).ok()).collect();
    assert!(!others.is_empty());
    let mut events = Loop::new(&path);
    events.publish(exit(0));
    assert!(events.publisher.deadline().is_some());
    drop(others);
    let containerd = Containerd::with(listener, |_| Reply::Answer);
    events.until_idle();
    assert_eq!(containerd.end(), exits(0..1));
}

#[test]
fn what_containerd_refuses_is_tried_again_and_given_up() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    // The first event is refused once, the second one always.
    let reply = |nth| if nth == 0 || (2..7).contains(&nth) { Reply::Refuse } else { Reply::Answer };
    let containerd = Containerd::with(listener(&path, 8), reply);
    let mut events = Loop::new(&path);
    (0..3).for_each(|number| events.publish(exit(number)));
    events.until_idle();
    let warning = events.publisher.take_warning().unwrap();
    assert!(warning.contains("/tasks/exit") && warning.contains("not now"), "{warning}");
    assert_eq!(containerd.end(), exits([0, 2].into_iter()));
}

#[test]
fn nobody_to_tell() {
    let poller = Poller::new().unwrap();
    for address in [None, Some(""), Some("unix://")] {
        let mut publisher = Publisher::new(address, "k8s.io");
        publisher.publish(&poller, exit(0));
        assert!(publisher.is_idle() && publisher.deadline().is_none());
    }
    // The path is too long for a socket's address, so the socket is treated as missing.
    let mut publisher = Publisher::new(Some(&format!("/{}", "x".repeat(200))), "k8s.io");
    publisher.publish(&poller, exit(0));
    assert!(publisher.deadline().is_some());
}
