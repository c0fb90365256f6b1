//! A replay: an open loop of invocations, with one runtime and one policy.
//!
//! A single thread waits with one poll(2) for all events: the next due time, the exits of the
//! runtime's commands and of containers' programs, and their output.

mod placing;

use super::agent::{Agent, Kept};
use super::bill::Bill;
use super::histogram::Habits;
use super::instance::{Event, Instance, State};
use super::schedule::Workload;
use super::{Faas, Policy, Row};
use crate::harness::*;
use crate::restore::Images;
use rustix::event::{Timespec, poll};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// The number of failed containers after which a replay is given up.
const TOLERATED: usize = 8;

/// The initial share of a replay, in which the number of containers reaches its steady state.
const RAMP: f64 = 0.3;

/// The state of an invocation under way.
#[derive(Debug, Clone, Copy, Default)]
struct Underway {
    begun: Option<Duration>,
    is_cold: bool,
}

/// A container planned for a function.
#[derive(Debug, Clone, Copy)]
struct Planned {
    function: usize,
    at: Instant,
    until: Instant,
}

/// The state of a replay.
#[derive(Debug)]
struct Replay<'a> {
    options: &'a Faas,
    workload: &'a Workload,
    policy: Policy,
    instances: Vec<Instance<'a>>,
    /// The template of each function, with a policy that has them.
    templates: Vec<Kept<'a>>,
    /// The idle times of each function.
    habits: Vec<Habits>,
    underway: Vec<Underway>,
    /// Invocations that wait because the maximum number of containers is reached.
    waiting: VecDeque<usize>,
    planned: Vec<Planned>,
    /// The next invocation that becomes due.
    next: usize,
    /// The time when the replay began; `None` before that.
    begin: Option<(Instant, SystemTime)>,
    /// The results.
    row: &'a mut Row,
}

/// Replays the workload with `racer` and the policy of `row`, and adds the results to the row.
///
/// # Errors
/// Errors of the harness itself; an interrupt; the runtime's.
pub(super) fn replay(
    stand: &Stand,
    racer: &Entrant,
    options: &Faas,
    (workload, agent): (&Workload, &Agent),
    row: &mut Row,
    wakes: &UnixStream,
) -> Result<(), Error> {
    let policy = row.policy;
    // Bundles are written before the clock starts.
    let pool = usize::from(options.pool);
    let needed = workload.invocations.len() + if policy == Policy::Warm { pool } else { 0 };
    let count = needed.min(usize::from(options.most));
    let start_time = Duration::from_secs_f64(row.start_ms / 1e3);
    let mut instances = Vec::with_capacity(count);
    for _ in 0..count {
        interrupt::check()?;
        instances.push(Instance::new(
            agent.container(stand, racer, policy)?,
            stand.deadline,
            start_time,
        ));
    }
    let mut templates = Vec::new();
    let with_template = workload.functions.iter().filter(|_| policy == Policy::Template);
    for _ in with_template {
        interrupt::check()?;
        templates.push(Kept::make(agent, stand, racer)?);
    }
    if policy == Policy::Restored {
        let saved = save(agent, stand, racer)?;
        instances.iter_mut().for_each(|instance| instance.restore_from(&saved));
    }
    let habits = workload.functions.iter().map(|_| Habits::new(options.keep)).collect();
    let mut replay = Replay {
        options,
        workload,
        policy,
        instances,
        templates,
        habits,
        underway: vec![Underway::default(); workload.invocations.len()],
        waiting: VecDeque::new(),
        planned: Vec::new(),
        next: 0,
        begin: None,
        row,
    };
    replay.go(wakes)
}

/// Saves an agent that is ready, and restores it once: dayfly then records which pages it accesses.
///
/// # Errors
/// Errors of the harness itself; the runtime's.
fn save(agent: &Agent, stand: &Stand, racer: &Entrant) -> Result<Rc<Images>, Error> {
    let container = || agent.container(stand, racer, Policy::Cold);
    let new = |container| Instance::new(container, stand.deadline, Duration::ZERO);
    let saved = Rc::new(Images::new(stand)?);
    let first = new(container()?);
    first.saved(&saved.images).map_err(Error::Out)?;
    let mut again = new(container()?);
    again.restore_from(&saved);
    again.start(0, None).map_err(Error::Out)?;
    again.await_event(|event| *event == Event::Ready).map_err(Error::Out)?;
    again.serve(0, Duration::from_millis(1)).map_err(Error::Out)?;
    again.await_event(|event| matches!(event, Event::Done(_))).map_err(Error::Out)?;
    if racer.runtime.is_dayfly() {
        saved.await_record();
    }
    again.end();
    again.await_event(|event| *event == Event::Gone).map_err(Error::Out)?;
    Ok(saved)
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        // No command may be running when containers are removed one after the other.
        self.instances.iter_mut().for_each(Instance::stop);
    }
}

impl Replay<'_> {
    fn go(&mut self, wakes: &UnixStream) -> Result<(), Error> {
        // The stock is filled before the clock starts.
        while self.policy == Policy::Warm && !self.is_stocked() {
            self.refill();
            self.wait(None, wakes)?;
            if self.is_hopeless() {
                return Err(Error::Out(self.reason()));
            }
        }
        let begin = Instant::now();
        self.begin = Some((begin, SystemTime::now()));
        // Resources that the stock has used before are not counted.
        self.instances.iter_mut().filter(|of| of.is_spare()).for_each(|of| of.bill.restart(begin));
        self.templates.iter_mut().for_each(|template| template.begin(begin));
        let end = begin + self.workload.duration;
        loop {
            let now = Instant::now();
            self.arrive(now);
            self.keep_time(now);
            self.refill();
            self.count(now.saturating_duration_since(begin));
            if self.is_hopeless() {
                return Err(Error::Out(self.reason()));
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
                    self.instances[at].end();
                }
            }
            self.overdue(Instant::now());
            let at = self.instances.iter().filter_map(Instance::overdue).min();
            self.wait(at, wakes)?;
        }
        Ok(())
    }

    /// Records how many containers there are and are at work, if that has changed.
    fn count(&mut self, passed: Duration) {
        let is_there = |of: &&Instance<'_>| !matches!(of.state, State::Free | State::Broken);
        let there = self.instances.iter().filter(is_there).count();
        let at_work = self.instances.iter().filter(|of| of.work.is_some()).count();
        let last = self.row.over_time.last();
        if last.is_none_or(|&(_, of, busy)| (of, busy) != (there, at_work)) {
            self.row.over_time.push((passed.as_secs_f64(), there, at_work));
        }
    }

    /// Returns whether all invocations are done or have failed.
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
        self.row.reason.clone().unwrap_or_else(|| "containers went wrong".to_owned())
    }

    /// Starts the invocations that are due.
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
            self.row.reason.get_or_insert(reason);
        }
    }

    /// Ends containers that are idle for too long, starts planned containers, and gives up overdue ones.
    fn keep_time(&mut self, now: Instant) {
        for at in 0..self.instances.len() {
            let of = &mut self.instances[at];
            if of.is_spare() && of.is_ready && of.until.is_some_and(|until| until <= now) {
                of.end();
            }
        }
        for at in 0..self.instances.len() {
            let of = &mut self.instances[at];
            if of.held.is_some()
                && of.held_until <= now
                && let Err(reason) = of.send()
            {
                self.lost(at, reason);
            }
        }
        while let Some(due) = self.planned.iter().position(|it| it.at <= now) {
            let planned = self.planned.swap_remove(due);
            let free = self.instances.iter().position(|of| of.state == State::Free);
            // If no instance is free for the planned container, the plan is dropped, and the next
            // invocation will be a cold start.
            if let Some(at) = free {
                self.start(at, planned.function, Some(planned.until));
            }
        }
        self.overdue(now);
    }

    fn overdue(&mut self, now: Instant) {
        for at in 0..self.instances.len() {
            if self.instances[at].overdue().is_some_and(|overdue| overdue <= now) {
                let reason = self.instances[at].give_up();
                self.lost(at, reason);
            }
        }
    }

    /// Handles the failure of a container and its invocation.
    fn lost(&mut self, at: usize, reason: String) {
        self.note(Some(reason));
        if self.instances[at].work.take().is_some() {
            self.row.failed += 1;
        }
    }

    /// Returns the earliest time at which an action is due.
    fn next_moment(&self) -> Option<Instant> {
        let (begin, _) = self.begin?;
        let due = self.workload.invocations.get(self.next).map(|of| begin + of.due);
        let idle = self.instances.iter().filter(|of| of.is_spare() && of.is_ready);
        let planned = self.planned.iter().map(|it| it.at);
        let held = self.instances.iter().filter(|of| of.held.is_some()).map(|of| of.held_until);
        let overdue = self.instances.iter().filter_map(Instance::overdue).chain(held);
        let moments = idle.filter_map(|of| of.until).chain(planned).chain(overdue);
        moments.chain(due).min()
    }

    /// Waits for an event until the given time, and handles all events.
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
            match self.instances[at].look() {
                Ok(events) => events.into_iter().for_each(|event| self.take(at, event)),
                Err(reason) => self.lost(at, reason),
            }
        }
        if self.begin.is_none() {
            // Before the beginning, overdue containers are given up here; afterwards `keep_time` gives them up.
            self.overdue(Instant::now());
        }
        Ok(())
    }

    fn take(&mut self, at: usize, event: Event) {
        match event {
            // The container was started before its invocation, and may be needed for another
            // invocation by now.
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

    /// Returns the time that has passed since the due time of the container's invocation.
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
                self.row.add(self.workload.invocations[invocation], begun, done, is_cold);
            }
            _ => self.row.failed += 1,
        }
        self.afterwards(at);
    }

    /// Adds up the resources that containers have used so far.
    fn settle(&mut self) {
        let mut all = Bill::default();
        let mut functions = vec![Bill::default(); self.workload.functions.len()];
        for of in &mut self.instances {
            of.measure();
            for (function, bill) in of.bills() {
                all.add(bill);
                if let Some(sum) = functions.get_mut(function) {
                    sum.add(bill);
                }
            }
        }
        self.row.memory_by = self.row.memory_by.or(all.by);
        self.row.cost += all.cost(all);
        for (cost, bill) in self.row.costs.iter_mut().zip(functions) {
            *cost += bill.cost(all);
        }
        for (template, function) in self.templates.iter_mut().zip(&mut self.row.costs) {
            let cost = template.cost();
            *function += cost;
            self.row.cost += cost;
        }
    }
}
