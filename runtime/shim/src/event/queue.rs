//! The queue of events that were not sent yet: ordered and bounded.
//!
//! While containerd is not running, it makes no calls, so nothing is created, started or paused. The number of other
//! events is limited by the number of running processes, each of which exits once. Only OOM events can repeat. Since an
//! OOM event contains only the container's id, it is not added again while the same event is waiting (see
//! [`Queue::push`]).
//!
//! After a restart, containerd queries each task's state (`Connect`, `State`, `Wait`). So it needs no events to learn
//! of running and exited processes, but only events report OOM kills. If containerd was only frozen, or if only a proxy
//! in front of its socket was restarted, containerd makes no queries: after a missed exit event, it would consider the
//! process as running forever. So incidental events (which report completed calls whose answers containerd received)
//! share a small limit, and the oldest of them are dropped. All events share a large limit. Only other clients of the
//! shim can reach this limit, by executing 16 000 processes while containerd is not running. In that case, incidental
//! events are dropped first. Next are the exits of such additional processes, oldest first, because their state can
//! still be queried. The remaining events are dropped last.

use alloc::collections::VecDeque;
use core::mem::size_of;

use proto::messages::events::topic;
use proto::messages::time::Timestamp;

use super::{Event, Weight};

/// The limits of the queue: number of events, and bytes of memory.
const MOST: Room = Room { events: 16 << 10, bytes: 4 << 20 };
/// The limits for the incidental events in the queue.
const MOST_INCIDENTAL: Room = Room { events: 512, bytes: 256 << 10 };
/// The approximate overhead of one allocation, in bytes; each event has two allocations.
const ALLOCATION: usize = 16;
/// The number of events for which an empty queue keeps memory allocated.
const KEPT: usize = 16;

/// A number of events, and their total size in bytes of memory.
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

/// An event and the time when it was added to the queue.
#[derive(Debug)]
pub(super) struct Item {
    pub event: Event,
    pub time: Timestamp,
}

impl Item {
    /// Returns the item's size in bytes of memory.
    fn size(&self) -> usize {
        let any = &self.event.event;
        size_of::<Self>() + any.type_url.len() + any.value.len() + 2 * ALLOCATION
    }
}

/// The queue; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    all: Room,
    incidental: Room,
    /// Whether the first event was sent but not yet answered. Such an event stays in the queue.
    is_sent: bool,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the next event to send; `None` if the first event was already sent.
    pub fn next(&self) -> Option<&Item> {
        self.items.front().filter(|_| !self.is_sent)
    }

    /// Marks the first event as sent or, if it must be sent again, as not sent.
    pub fn set_sent(&mut self, is_sent: bool) {
        self.is_sent = is_sent && !self.items.is_empty();
    }

    /// Removes the first event, which was answered.
    pub fn pop(&mut self) -> Option<Item> {
        self.is_sent = false;
        self.remove(0)
    }

    /// Adds an event, and returns how many other events were dropped.
    ///
    /// An OOM event that is already queued is not added again, unless a container was created or has exited since then:
    /// the id may now belong to a new container.
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
        // The creation or end of any container counts: to compare the ids, the events would have to be decoded.
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

    /// Drops the oldest event of this weight. An event that was sent and the newest event are never dropped. Returns
    /// whether an event was dropped.
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
    use crate::event::tests::now;

    fn item(event: Event) -> Item {
        Item { event, time: now() }
    }

    fn topics(queue: &Queue) -> Vec<&str> {
        queue.items.iter().map(|item| item.event.topic).collect()
    }

    fn exit(exec: &str) -> Event {
        Event::exit("c", exec, 7, 0, now())
    }

    /// Returns an id with the length of containerd's ids.
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
        // The oldest incidental events were dropped.
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
        // The event that was sent and the container's exit were kept.
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
        // The first event was sent, so an equal event is added again.
        queue.set_sent(true);
        queue.push(item(Event::oom("c")));
        assert_eq!(queue.items.len(), 4);
        // After an exit, the OOM event may belong to another container.
        queue.push(item(exit("")));
        queue.push(item(Event::oom("c")));
        assert_eq!(queue.items.len(), 6);
    }
}
