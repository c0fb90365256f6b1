//! What waits to be told: in order, within bounds.
//!
//! While containerd is away it asks for nothing, so that nothing is created, started or paused. What then happens
//! is bounded by what runs: a process exits once. Only want of memory may come again and again; it says
//! nothing but which container, and is told once as long as that was not sent (see [`Queue::push`]).
//!
//! containerd that was started anew asks each task for its state (`Connect`, `State`, `Wait`) and needs no event to
//! know what runs and how it ended; only want of memory it can learn from the event alone. containerd that was merely
//! frozen, or a proxy before it that was started anew, asks nothing: to it an exit that is not told is a process
//! that runs for ever. So incidental events (that a call was done, whose answer containerd had) have a small room of
//! their own, of which the oldest give way; exits, deletions and want of memory have a large one, which
//! only other clients of the shim could fill: by executing 16 000 processes while containerd is away. Then
//! the oldest exits of such processes give way, whose state can still be asked for, and last the others.

use alloc::collections::VecDeque;
use core::mem::size_of;

use proto::messages::events::topic;
use proto::messages::time::Timestamp;

use super::{Event, Weight};

/// At most so much is kept: events, and bytes of memory.
const MOST: Room = Room { events: 16 << 10, bytes: 4 << 20 };
/// At most so much of it is incidental.
const MOST_INCIDENTAL: Room = Room { events: 512, bytes: 256 << 10 };
/// What an allocation costs beyond its bytes, roughly; an event has two.
const ALLOCATION: usize = 16;
/// For how many events room is kept when there are none.
const KEPT: usize = 16;

/// How much there is of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Room {
    events: usize,
    bytes: usize,
}

impl Room {
    fn add(&mut self, bytes: usize) {
        self.events += 1;
        self.bytes += bytes;
    }

    fn take(&mut self, bytes: usize) {
        self.events -= 1;
        self.bytes -= bytes;
    }

    fn is_within(self, most: Room) -> bool {
        self.events <= most.events && self.bytes <= most.bytes
    }
}

/// An event and when it was told to the queue.
#[derive(Debug)]
pub(super) struct Item {
    pub event: Event,
    pub time: Timestamp,
}

impl Item {
    /// Bytes of memory.
    fn size(&self) -> usize {
        let any = &self.event.event;
        size_of::<Self>() + any.type_url.len() + any.value.len() + 2 * ALLOCATION
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    all: Room,
    incidental: Room,
    /// Whether the first one was sent and has no answer yet: then it stays.
    is_sent: bool,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The one whose turn it is, if it was not sent.
    pub fn next(&self) -> Option<&Item> {
        self.items.front().filter(|_| !self.is_sent)
    }

    /// Says that the first one was sent, or that its answer will not come.
    pub fn set_sent(&mut self, is_sent: bool) {
        self.is_sent = is_sent && !self.items.is_empty();
    }

    /// Removes the first one: it was answered.
    pub fn pop(&mut self) -> Option<Item> {
        self.is_sent = false;
        self.remove(0)
    }

    /// Adds an event, and returns how many others gave way.
    ///
    /// Want of memory that waits already is not told twice, unless a container has ended or was created since, which
    /// may be the one.
    pub fn push(&mut self, item: Item) -> usize {
        if item.event.topic == topic::TASK_OOM && self.has_waiting(&item.event) {
            return 0;
        }
        let size = item.size();
        self.all.add(size);
        if item.event.weight == Weight::Incidental {
            self.incidental.add(size);
        }
        self.items.push_back(item);
        let mut lost = 0;
        while !self.incidental.is_within(MOST_INCIDENTAL) && self.lose(Weight::Incidental) {
            lost += 1;
        }
        for weight in [Weight::Incidental, Weight::OfExec, Weight::Main] {
            while !self.all.is_within(MOST) && self.lose(weight) {
                lost += 1;
            }
        }
        lost
    }

    fn has_waiting(&self, event: &Event) -> bool {
        // Any container's: which one an event is of would have to be read out of it.
        let is_end = |event: &Event| {
            event.topic == topic::TASK_CREATE
                || event.topic != topic::TASK_OOM && event.weight == Weight::Main
        };
        let waiting = self.items.range(self.first_waiting()..).rev();
        waiting.take_while(|item| !is_end(&item.event)).any(|item| item.event == *event)
    }

    fn first_waiting(&self) -> usize {
        usize::from(self.is_sent)
    }

    /// Drops the oldest one of that weight, which is neither on its way nor the newest of all.
    fn lose(&mut self, weight: Weight) -> bool {
        let first = self.first_waiting();
        let end = self.items.len().saturating_sub(1).max(first);
        let oldest = self.items.range(first..end).position(|item| item.event.weight == weight);
        oldest.is_some_and(|at| self.remove(first + at).is_some())
    }

    fn remove(&mut self, at: usize) -> Option<Item> {
        let item = self.items.remove(at)?;
        let size = item.size();
        self.all.take(size);
        if item.event.weight == Weight::Incidental {
            self.incidental.take(size);
        }
        if self.items.is_empty() && self.items.capacity() > KEPT {
            self.items = VecDeque::new();
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::now;

    fn item(event: Event) -> Item {
        Item { event, time: now() }
    }

    fn topics(queue: &Queue) -> Vec<&str> {
        queue.items.iter().map(|item| item.event.topic).collect()
    }

    fn exit(exec: &str) -> Event {
        Event::exit("c", exec, 7, 0, now())
    }

    /// As long as containerd's ids are.
    fn id(number: usize) -> String {
        format!("{number:064}")
    }

    #[test]
    fn ten_thousand_events_stay_within_bounds() {
        let mut queue = Queue::default();
        let mut lost = 0;
        for number in 0..10_000 {
            let (container, exec) = (id(number % 100), id(number));
            lost += queue.push(item(Event::exec_started(&container, &exec, 7)));
            lost += queue.push(item(Event::exit(&container, &exec, 7, 0, now())));
            lost += queue.push(item(Event::oom(&container)));
            assert!(queue.all.is_within(MOST), "{:?}", queue.all);
            assert!(queue.incidental.is_within(MOST_INCIDENTAL));
        }
        assert!(queue.all.events > 10_000, "{:?}", queue.all);
        assert!(lost > 9000);
        // What has given way is the oldest.
        let first = queue.items.iter().position(|item| item.event.weight == Weight::Incidental);
        assert!(first.unwrap() > 9000);
        while queue.pop().is_some() {}
        assert_eq!((queue.all, queue.incidental), (Room::default(), Room::default()));
        assert!(queue.items.capacity() <= KEPT);
    }

    #[test]
    fn no_exit_of_ten_thousand_is_lost() {
        let mut queue = Queue::default();
        for number in 0..10_000 {
            assert_eq!(queue.push(item(Event::exit(&id(0), &id(number), 7, 0, now()))), 0);
        }
        assert_eq!(queue.all.events, 10_000);
    }

    #[test]
    fn exits_of_execs_give_way_before_those_of_containers() {
        let mut queue = Queue::default();
        queue.push(item(exit("e0")));
        queue.set_sent(true);
        queue.push(item(exit("")));
        for number in 0..MOST.events {
            queue.push(item(exit(&format!("e{number}"))));
        }
        assert!(queue.all.is_within(MOST));
        // The one that was sent, and the container's.
        assert_eq!(queue.pop().unwrap().event.weight, Weight::OfExec);
        assert_eq!(queue.items[0].event.weight, Weight::Main);
    }

    #[test]
    fn one_alone_is_kept_however_long_it_is() {
        let mut queue = Queue::default();
        let bundle = "x".repeat(MOST_INCIDENTAL.bytes);
        assert_eq!(queue.push(item(Event::checkpointed("c", &bundle))), 0);
        assert_eq!(queue.push(item(Event::paused("c"))), 1);
        assert_eq!(topics(&queue), [topic::TASK_PAUSED]);
    }

    #[test]
    fn want_of_memory_is_told_once_until_it_was_sent() {
        let mut queue = Queue::default();
        for event in [Event::oom("c"), Event::oom("d"), Event::paused("c"), Event::oom("c")] {
            queue.push(item(event));
        }
        assert_eq!(topics(&queue), [topic::TASK_OOM, topic::TASK_OOM, topic::TASK_PAUSED]);
        // The first is on its way: what comes now is another.
        queue.set_sent(true);
        queue.push(item(Event::oom("c")));
        assert_eq!(queue.items.len(), 4);
        // After an end it is another container's.
        queue.push(item(exit("")));
        queue.push(item(Event::oom("c")));
        assert_eq!(queue.items.len(), 6);
    }
}
