//! A replay: an open loop of invocations, one runtime, one policy.
//!
//! One thread waits for all that there is to wait for, by one poll(2): the next moment at which something is due, the ends
//! of the runtime's commands and of containers' programs, and what these say.

mod placing;

use super::histogram::Habits;
use super::instance::{AGENT, Event, Instance, State};
use super::meter::By;
use super::schedule::Workload;
use crate::Error;
use crate::container::Container;
use crate::options::{Faas, Policy};
use crate::stand::{Entrant, Stand};
use report::interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Containers that may go wrong before a replay is given up.
const TOLERATED: usize = 8;

/// The part of a replay in which its containers become as many as it needs.
const RAMP: f64 = 0.3;

/// An invocation that was served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) invocation: usize,
    /// From when it was due until its own code had begun.
    pub(super) begun: Duration,
    /// From when it was due until it was done.
    pub(super) done: Duration,
    /// Whether it had to wait for a container's start.
    pub(super) is_cold: bool,
}

/// What came of a replay.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub(super) served: Vec<Served>,
    /// Invocations that were not.
    pub(super) failed: usize,
    /// Why the first of them was not, or a container went wrong.
    pub(super) reason: Option<String>,
    /// Containers that were started, the first stock among them.
    pub(super) started: usize,
    /// Containers at most at a time, until they are deleted.
    pub(super) most: usize,
    /// Those of them that had work, at most at a time, after the first 30 % of the time.
    pub(super) busy_late: usize,
    /// Containers' time from their start until their program's end, in seconds.
    pub(super) container_s: f64,
    /// Their memory times that, in MiB·s, if it can be told.
    pub(super) mib_s: Option<f64>,
    /// How it was told.
    pub(super) by: Option<By>,
}

/// What is known of an invocation that is under way.
#[derive(Debug, Clone, Copy, Default)]
struct Underway {
    begun: Option<Duration>,
    is_cold: bool,
}

/// A container that is to be started for a function.
#[derive(Debug, Clone, Copy)]
struct Planned {
    function: usize,
    at: Instant,
    until: Instant,
}

/// The whole.
#[derive(Debug)]
struct Replay<'a> {
    options: &'a Faas,
    workload: &'a Workload,
    policy: Policy,
    deadline: Duration,
    instances: Vec<Instance<'a>>,
    /// Of each function.
    habits: Vec<Habits>,
    underway: Vec<Underway>,
    /// Invocations that have no container: there are as many as there may be.
    waiting: VecDeque<usize>,
    planned: Vec<Planned>,
    /// The next invocation that will be due.
    next: usize,
    /// Since when; none before.
    begin: Option<(Instant, SystemTime)>,
    replayed: Replayed,
}

/// Replays the workload by `racer` with a policy.
///
/// # Errors
/// The harness's own; an interrupt. The inner one: what the runtime did wrong.
pub(super) fn replay(
    stand: &Stand,
    racer: &Entrant,
    options: &Faas,
    workload: &Workload,
    policy: Policy,
    wakes: &UnixStream,
) -> Result<Result<Replayed, String>, Error> {
    // Bundles are written before the clock starts.
    let pool = usize::from(options.pool);
    let needed = workload.invocations.len() + if policy == Policy::Warm { pool } else { 0 };
    let count = needed.min(usize::from(options.most));
    let mut instances = Vec::with_capacity(count);
    for _ in 0..count {
        interrupt::check()?;
        instances.push(Instance::new(Container::new(stand, racer, &AGENT)?));
    }
    let habits = workload.functions.iter().map(|_| Habits::new(options.keep)).collect();
    let mut replay = Replay {
        options,
        workload,
        policy,
        deadline: stand.deadline,
        instances,
        habits,
        underway: vec![Underway::default(); workload.invocations.len()],
        waiting: VecDeque::new(),
        planned: Vec::new(),
        next: 0,
        begin: None,
        replayed: Replayed::default(),
    };
    replay.go(wakes)
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        // No command may be under way when containers are removed, one after the other.
        self.instances.iter_mut().for_each(Instance::stop);
    }
}

impl Replay<'_> {
    fn go(&mut self, wakes: &UnixStream) -> Result<Result<Replayed, String>, Error> {
        // The stock is full when the clock starts.
        while self.policy == Policy::Warm && !self.is_stocked() {
            self.refill();
            self.wait(None, wakes)?;
            if self.is_hopeless() {
                return Ok(Err(self.reason()));
            }
        }
        let begin = Instant::now();
        self.begin = Some((begin, SystemTime::now()));
        // What the stock took before is nobody's.
        self.instances.iter_mut().filter(|of| of.is_spare()).for_each(|of| of.bill.restart(begin));
        let end = begin + self.workload.duration;
        loop {
            let now = Instant::now();
            self.arrive(now);
            self.keep_time(now);
            self.refill();
            if self.is_hopeless() {
                return Ok(Err(self.reason()));
            }
            if self.is_over() && now >= end {
                break;
            }
            let at = self.next_moment().into_iter().chain((now < end).then_some(end)).min();
            self.wait(at, wakes)?;
        }
        self.settle();
        while self.instances.iter().any(|of| !matches!(of.state, State::Free | State::Broken)) {
            for at in 0..self.instances.len() {
                if self.instances[at].state == State::Up {
                    self.instances[at].end(self.deadline);
                }
            }
            self.overdue(Instant::now());
            let at = self.instances.iter().filter_map(Instance::overdue).min();
            self.wait(at, wakes)?;
        }
        Ok(Ok(std::mem::take(&mut self.replayed)))
    }

    /// Whether all invocations are done, or failed.
    fn is_over(&self) -> bool {
        self.next == self.workload.invocations.len()
            && self.waiting.is_empty()
            && self.instances.iter().all(|of| of.work.is_none())
    }

    fn is_hopeless(&self) -> bool {
        let broken = self.instances.iter().filter(|of| of.state == State::Broken).count();
        broken > TOLERATED.min(self.instances.len() / 2)
    }

    fn reason(&self) -> String {
        self.replayed.reason.clone().unwrap_or_else(|| "containers went wrong".to_owned())
    }

    /// Takes what is due now.
    fn arrive(&mut self, now: Instant) {
        let Some((begin, _)) = self.begin else { return };
        while let Some(invocation) = self.workload.invocations.get(self.next) {
            if begin + invocation.due > now {
                break;
            }
            if self.policy == Policy::Histogram {
                self.habits[invocation.function].arrive(invocation.due);
            }
            self.place(self.next);
            self.next += 1;
        }
    }

    fn note(&mut self, reason: Option<String>) {
        if let Some(reason) = reason {
            self.replayed.reason.get_or_insert(reason);
        }
    }

    /// Ends what is idle for too long, starts what was planned, gives up what takes too long.
    fn keep_time(&mut self, now: Instant) {
        for at in 0..self.instances.len() {
            let of = &mut self.instances[at];
            if of.is_spare() && of.is_ready && of.until.is_some_and(|until| until <= now) {
                of.end(self.deadline);
            }
        }
        while let Some(due) = self.planned.iter().position(|it| it.at <= now) {
            let planned = self.planned.swap_remove(due);
            let free = self.instances.iter().position(|of| of.state == State::Free);
            // Where there is no room for it, it is not made: the next invocation will be cold.
            if let Some(at) = free {
                self.start(at, planned.function, Some(planned.until));
            }
        }
        self.overdue(now);
    }

    fn overdue(&mut self, now: Instant) {
        for at in 0..self.instances.len() {
            if self.instances[at].overdue().is_some_and(|overdue| overdue <= now) {
                let reason = self.instances[at].give_up(self.deadline);
                self.lost(at, reason);
            }
        }
    }

    /// A container went wrong, and with it its invocation.
    fn lost(&mut self, at: usize, reason: String) {
        self.note(Some(reason));
        if self.instances[at].work.take().is_some() {
            self.replayed.failed += 1;
        }
    }

    /// When something is to be done next.
    fn next_moment(&self) -> Option<Instant> {
        let (begin, _) = self.begin?;
        let due = self.workload.invocations.get(self.next).map(|of| begin + of.due);
        let idle = self.instances.iter().filter(|of| of.is_spare() && of.is_ready);
        let planned = self.planned.iter().map(|it| it.at);
        let overdue = self.instances.iter().filter_map(Instance::overdue);
        let moments = idle.filter_map(|of| of.until).chain(planned).chain(overdue);
        moments.chain(due).min()
    }

    /// Waits until something happens, or until that moment; takes what has happened.
    fn wait(&mut self, until: Option<Instant>, wakes: &UnixStream) -> Result<(), Error> {
        let overdue = self.instances.iter().filter_map(Instance::overdue);
        let until = overdue.chain(until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(wakes, PollFlags::IN)];
        let mut whose = vec![usize::MAX];
        for (at, of) in self.instances.iter().enumerate() {
            for (handle, flags) in of.handles() {
                fds.push(PollFd::from_borrowed_fd(handle, flags));
                whose.push(at);
            }
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::errno("wait for", Path::new("containers"))(errno)),
        }
        interrupt::check()?;
        let spoke = fds.iter().zip(&whose).filter(|(fd, _)| !fd.revents().is_empty());
        let mut spoke: Vec<usize> = spoke.map(|(_, &at)| at).collect();
        spoke.dedup();
        for at in spoke.into_iter().filter(|at| *at != usize::MAX) {
            match self.instances[at].look(self.deadline) {
                Ok(events) => events.into_iter().for_each(|event| self.take(at, event)),
                Err(reason) => self.lost(at, reason),
            }
        }
        if self.begin.is_none() {
            // Later ones are given up in their turn.
            self.overdue(Instant::now());
        }
        Ok(())
    }

    fn take(&mut self, at: usize, event: Event) {
        match event {
            // One that was started ahead, and is needed elsewhere by now.
            Event::Ready if self.instances[at].is_spare() => _ = self.reassign(at),
            Event::Ready => {}
            Event::Begun(time) => {
                let begun = self.since_due(at, time);
                if let Some(invocation) = self.instances[at].work {
                    self.underway[invocation].begun = begun;
                }
            }
            Event::Done(time) => self.done(at, time),
            Event::Gone => self.next_waiting(),
        }
    }

    /// How long after an instance's invocation was due that is.
    fn since_due(&self, at: usize, time: SystemTime) -> Option<Duration> {
        let (_, begin) = self.begin?;
        let due = self.workload.invocations.get(self.instances[at].work?)?.due;
        Some(time.duration_since(begin + due).unwrap_or_default())
    }

    fn done(&mut self, at: usize, time: SystemTime) {
        let done = self.since_due(at, time);
        let Some(invocation) = self.instances[at].work.take() else { return };
        let Underway { begun, is_cold } = self.underway[invocation];
        match (begun, done) {
            (Some(begun), Some(done)) => {
                self.replayed.served.push(Served { invocation, begun, done, is_cold });
            }
            _ => self.replayed.failed += 1,
        }
        self.afterwards(at);
    }

    /// Adds up what containers have taken so far.
    fn settle(&mut self) {
        let (mut kib_s, mut measured_s) = (0.0, 0.0);
        for of in &mut self.instances {
            of.measure();
            self.replayed.container_s += of.bill.seconds;
            kib_s += of.bill.kib_s;
            measured_s += of.bill.measured_s;
            self.replayed.by = self.replayed.by.or(of.bill.by);
        }
        // Those that were gone before they could be measured are as the others.
        self.replayed.mib_s =
            (measured_s > 0.0).then(|| kib_s / measured_s * self.replayed.container_s / 1024.0);
    }
}
