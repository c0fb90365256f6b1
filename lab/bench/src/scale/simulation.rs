//! The simulation: pods from their creation until they are ready, event by event.
//!
//! A request to the API server creates a pod. The pod waits for the scheduler, which binds the pod to a node by another
//! request. The nodes are equal, so the scheduler assigns pods to nodes in turns. On the node the pod waits for one of
//! the kubelet's workers, if their number is limited. The start then uses CPU time in parallel with other starts, and
//! after that CPU time under the node's lock. The kubelet notices the running container at its next look. The pod is
//! ready once the kubelet's requests about it are answered. From then on the pod's probes take CPU time from other
//! pods' starts.

use super::station::{At, Bucket, Limit, Processor, Queue};
use crate::harness::*;
use host::measure::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The number of events between two checks for an interrupt.
const EVENTS: u64 = 1 << 16;

/// The parameters of a simulation. Times are in seconds.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) nodes: usize,
    /// The number of CPUs of a node.
    pub(super) cores: f64,
    pub(super) pods: usize,
    /// The mean number of pods that arrive per second; `None` if all arrive at once.
    pub(super) rate: Option<f64>,
    /// The maximum number of pods of a node. It is so small that the node's CPUs suffice for the probes of all its
    /// pods.
    pub(super) holds: usize,
    /// The CPU time of a start outside the lock.
    pub(super) parallel: f64,
    /// The CPU time of a start under the lock.
    pub(super) locked: f64,
    /// The number of CPUs that the probes of one pod use.
    pub(super) probed: f64,
    pub(super) workers: Option<usize>,
    pub(super) relist: f64,
    pub(super) kubelet: Limit,
    pub(super) kubelet_calls: f64,
    pub(super) event: Limit,
    pub(super) events: f64,
    pub(super) scheduler: Limit,
    pub(super) api_rate: Option<f64>,
    pub(super) seed: u64,
}

/// The sums of all pods' waiting times, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Waits {
    pub(super) api_server: f64,
    pub(super) scheduler: f64,
    /// Waits for a worker of the kubelet, and for the kubelet's limit of requests per second.
    pub(super) kubelet: f64,
    /// Waits for a CPU. The CPU time itself is not included.
    pub(super) cpu: f64,
    pub(super) lock: f64,
}

/// The results of a simulation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ran {
    /// The time of each pod from its creation until it was ready, in ascending order.
    pub(super) took: Vec<f64>,
    /// The times at which pods became ready, in ascending order.
    pub(super) ready: Vec<f64>,
    /// The number of pods for which no node has room.
    pub(super) pending: usize,
    /// The time of the last event that the kubelet has sent.
    pub(super) last_event: f64,
    pub(super) waits: Waits,
    /// The sum of all pods' start times without waits: the CPU time, and the time until the kubelet's next look.
    pub(super) own: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The request that creates the pod is sent.
    Created(usize),
    /// The scheduler has received the pod.
    Queued(usize),
    /// The scheduler's limit allows the request that binds the pod.
    Bound(usize),
    /// The kubelet has received the pod.
    Seen(usize),
    /// The next job on a node's CPUs ends. The fields are the node, and its number of changes when the event was made.
    /// If that number has changed, the event is void.
    Ended(usize, u64),
    /// The kubelet sees that the container runs.
    Runs(usize),
    /// The kubelet's limit allows its requests about the pod.
    Reported(usize),
    /// The kubelet's requests about the pod are answered.
    Ready(usize),
}

#[derive(Debug)]
struct Node {
    cpus: Processor,
    changes: u64,
    /// The number of ready pods.
    ready: usize,
    starting: usize,
    waiting: VecDeque<usize>,
    /// Whether a pod has the lock. The pods in `queue` wait for it.
    held: bool,
    queue: VecDeque<usize>,
    kubelet: Bucket,
    event: Bucket,
    /// The time of the kubelet's first look.
    phase: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pod {
    created: f64,
    node: usize,
    /// The time at which the pod's current wait or job began.
    since: f64,
    has_lock: bool,
}

struct World<'a> {
    setup: &'a Setup,
    events: BinaryHeap<Reverse<(At, u64, Event)>>,
    /// The number of events made so far. Events of the same time are handled in the order in which they were made.
    made: u64,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    placed: usize,
    api: Queue,
    scheduler: Bucket,
    ran: Ran,
}

/// Runs a simulation until each pod is ready or has no node.
///
/// # Errors
/// An interrupt.
pub(super) fn run(setup: &Setup) -> Result<Ran, Error> {
    let mut random = Random::new(setup.seed);
    let node = |phase| Node {
        cpus: Processor::new(setup.cores),
        changes: 0,
        ready: 0,
        starting: 0,
        waiting: VecDeque::new(),
        held: false,
        queue: VecDeque::new(),
        kubelet: Bucket::new(setup.kubelet),
        event: Bucket::new(setup.event),
        phase,
    };
    // A node without pods has no events.
    let nodes = (0..setup.nodes.min(setup.pods)).map(|_| node(random.share() * setup.relist));
    let mut world = World {
        setup,
        events: BinaryHeap::with_capacity(setup.pods),
        made: 0,
        nodes: nodes.collect(),
        pods: vec![Pod::default(); setup.pods],
        placed: 0,
        api: Queue::new(setup.api_rate),
        scheduler: Bucket::new(setup.scheduler),
        ran: Ran::default(),
    };
    let mut now = 0.0;
    for pod in 0..setup.pods {
        now += setup.rate.map_or(0.0, |rate| random.gap() / rate);
        world.at(now, Event::Created(pod));
    }
    let mut count = 0_u64;
    while let Some(Reverse((At(now), _, event))) = world.events.pop() {
        count += 1;
        if count.is_multiple_of(EVENTS) {
            interrupt::check()?;
        }
        world.go(now, event);
    }
    world.ran.took.sort_unstable_by(f64::total_cmp);
    Ok(world.ran)
}

impl World<'_> {
    fn at(&mut self, when: f64, event: Event) {
        self.made += 1;
        self.events.push(Reverse((At(when), self.made, event)));
    }

    fn go(&mut self, now: f64, event: Event) {
        match event {
            Event::Created(pod) => {
                self.pods[pod].created = now;
                let answered = self.ask(now, 1.0);
                self.at(answered, Event::Queued(pod));
            }
            Event::Queued(pod) => {
                let may = self.scheduler.take(now, 1.0);
                self.ran.waits.scheduler += may - now;
                self.at(may, Event::Bound(pod));
            }
            Event::Bound(pod) => {
                if self.placed / self.nodes.len() >= self.setup.holds {
                    self.ran.pending += 1;
                    return;
                }
                self.pods[pod].node = self.placed % self.nodes.len();
                self.placed += 1;
                let answered = self.ask(now, 1.0);
                self.at(answered, Event::Seen(pod));
            }
            Event::Seen(pod) => {
                let node = &mut self.nodes[self.pods[pod].node];
                if self.setup.workers.is_some_and(|most| node.starting >= most) {
                    self.pods[pod].since = now;
                    node.waiting.push_back(pod);
                } else {
                    node.starting += 1;
                    self.compute(now, pod, self.setup.parallel);
                }
            }
            Event::Ended(node, changes) if changes == self.nodes[node].changes => {
                if let Some(pod) = self.nodes[node].cpus.end(now) {
                    self.computed(now, pod);
                }
            }
            // The node's jobs or CPUs have changed since this event was made, so there is a later event.
            Event::Ended(..) => {}
            Event::Runs(pod) => {
                let calls = self.setup.kubelet_calls;
                let may = self.nodes[self.pods[pod].node].kubelet.take(now, calls);
                self.ran.waits.kubelet += may - now;
                self.at(may, Event::Reported(pod));
            }
            Event::Reported(pod) => {
                let answered = self.ask(now, self.setup.kubelet_calls);
                self.at(answered, Event::Ready(pod));
            }
            Event::Ready(pod) => self.ready(now, pod),
        }
    }

    /// Makes requests to the API server; returns the time of the last answer.
    fn ask(&mut self, now: f64, count: f64) -> f64 {
        let answered = self.api.ask(now, count);
        self.ran.waits.api_server += answered - now;
        answered
    }

    /// Adds a job with `work` seconds of CPU time for a pod to the CPUs of the pod's node.
    fn compute(&mut self, now: f64, pod: usize, work: f64) {
        self.pods[pod].since = now;
        let node = self.pods[pod].node;
        self.nodes[node].cpus.add(now, pod, work);
        self.changed(node);
    }

    /// After a change, makes the event for the next end of a job on the node's CPUs.
    fn changed(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.changes += 1;
        let (changes, next) = (node.changes, node.cpus.next());
        if let Some(next) = next {
            self.at(next, Event::Ended(at, changes));
        }
    }

    /// Handles the end of a pod's job, which had the CPU time outside the lock or under the lock.
    fn computed(&mut self, now: f64, pod: usize) {
        let Pod { node, since, has_lock, .. } = self.pods[pod];
        let work = if has_lock { self.setup.locked } else { self.setup.parallel };
        self.ran.waits.cpu += (now - since - work).max(0.0);
        self.ran.own += work;
        if has_lock {
            self.nodes[node].held = false;
            match self.nodes[node].queue.pop_front() {
                Some(next) => self.lock(now, next),
                None => self.changed(node),
            }
            self.started(now, pod);
        } else if self.setup.locked <= 0.0 {
            self.changed(node);
            self.started(now, pod);
        } else if self.nodes[node].held {
            self.pods[pod].since = now;
            self.nodes[node].queue.push_back(pod);
            self.changed(node);
        } else {
            self.pods[pod].since = now;
            self.lock(now, pod);
        }
    }

    /// Gives a pod its node's lock.
    fn lock(&mut self, now: f64, pod: usize) {
        self.ran.waits.lock += now - self.pods[pod].since;
        self.pods[pod].has_lock = true;
        self.nodes[self.pods[pod].node].held = true;
        self.compute(now, pod, self.setup.locked);
    }

    /// Handles the start of a pod's container: the worker becomes free, and the kubelet notices the container at its
    /// next look.
    fn started(&mut self, now: f64, pod: usize) {
        let at = self.pods[pod].node;
        let node = &mut self.nodes[at];
        let sent = node.event.take(now, self.setup.events);
        self.ran.last_event = self.ran.last_event.max(sent);
        let looks = match self.setup.relist {
            relist if relist > 0.0 => {
                node.phase + ((now - node.phase) / relist).ceil().max(0.0) * relist
            }
            _ => now,
        };
        let looks = looks.max(now);
        self.ran.own += looks - now;
        match node.waiting.pop_front() {
            Some(next) => {
                self.ran.waits.kubelet += now - self.pods[next].since;
                self.compute(now, next, self.setup.parallel);
            }
            None => node.starting -= 1,
        }
        self.at(looks, Event::Runs(pod));
    }

    fn ready(&mut self, now: f64, pod: usize) {
        self.ran.ready.push(now);
        self.ran.took.push(now - self.pods[pod].created);
        self.api.ask(now, self.setup.events);
        if self.setup.probed > 0.0 {
            let at = self.pods[pod].node;
            let node = &mut self.nodes[at];
            node.ready += 1;
            // The last pod of a full node makes no difference: no start is left.
            if node.ready < self.setup.holds {
                let left = self.setup.cores - node.ready as f64 * self.setup.probed;
                node.cpus.resize(now, left);
                self.changed(at);
            }
        }
    }
}
