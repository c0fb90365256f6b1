//! Assigns invocations to containers, and decides whether an idle container is kept, reused or ended.

use super::{Planned, RAMP, Replay};
use crate::faas::Policy;
use crate::faas::instance::{Instance, NONE, State};
use crate::harness::*;

impl Replay<'_> {
    /// Assigns an invocation to a container that is idle or about to be idle, or else to a new
    /// container. If neither is possible, the invocation waits.
    pub(super) fn place(&mut self, invocation: usize) {
        let function = self.workload.invocations[invocation].function;
        let fits = |of: &Instance<'_>| {
            of.is_spare() && (self.policy == Policy::Warm || of.function == function)
        };
        let all = || self.instances.iter().enumerate().filter(|(_, of)| fits(of));
        // The most recently used container is chosen, so that the others can expire.
        let idle = all().filter(|(_, of)| of.is_ready).max_by_key(|(_, of)| of.idle_since);
        let starting = || all().find(|(_, of)| !of.is_ready);
        if let Some(at) = idle.or_else(starting).map(|(at, _)| at) {
            self.underway[invocation].is_cold = !self.instances[at].is_ready;
            return self.serve(at, invocation);
        }
        if let Some(at) = self.instances.iter().position(|of| of.state == State::Free) {
            self.underway[invocation].is_cold = true;
            // If a container is planned for the same function, the new container replaces it.
            if let Some(planned) = self.planned.iter().position(|it| it.function == function) {
                self.planned.remove(planned);
            }
            if self.start(at, function, None) {
                self.serve(at, invocation);
            } else {
                self.row.failed += 1;
            }
            return;
        }
        // The invocation is not marked as cold here: the container that finally serves it may be warm.
        self.waiting.push_back(invocation);
        self.make_room();
    }

    /// Ends the container that has been idle for longest, unless enough containers are being ended already.
    fn make_room(&mut self) {
        let leaving = |of: &&Instance<'_>| matches!(of.state, State::Ending | State::Deleting);
        if self.instances.iter().filter(leaving).count() >= self.waiting.len() {
            return;
        }
        let idle = self.instances.iter_mut().filter(|of| of.is_spare() && of.is_ready);
        if let Some(oldest) = idle.min_by_key(|of| of.idle_since) {
            oldest.end();
        }
    }

    /// Begins a container's start; returns false if that fails.
    pub(super) fn start(&mut self, at: usize, function: usize, until: Option<Instant>) -> bool {
        if let Some(template) = self.templates.get(function) {
            self.instances[at].fork_from(template.name());
        }
        let result = self.instances[at].start(function, until);
        let worked = result.is_ok();
        self.row.started += usize::from(worked);
        self.note(result.err());
        let there = |of: &&Instance<'_>| !matches!(of.state, State::Free | State::Broken);
        let count = self.instances.iter().filter(there).count();
        self.row.most = self.row.most.max(count);
        worked
    }

    /// Passes an invocation to a container.
    pub(super) fn serve(&mut self, at: usize, invocation: usize) {
        let takes = self.workload.invocations[invocation].takes;
        // A container in stock belongs to no function so far.
        self.instances[at].function = self.workload.invocations[invocation].function;
        if let Err(reason) = self.instances[at].serve(invocation, takes) {
            self.instances[at].work = None;
            self.note(Some(reason));
            self.row.failed += 1;
        }
        let passed = self.begin.map_or(Duration::ZERO, |(begin, _)| begin.elapsed());
        if passed >= self.workload.duration.mul_f64(RAMP) {
            let busy = self.instances.iter().filter(|of| of.work.is_some()).count();
            self.row.busy_late = self.row.busy_late.max(busy);
        }
    }

    /// Refills the stock, if more invocations follow.
    pub(super) fn refill(&mut self) {
        if self.policy != Policy::Warm || self.next == self.workload.invocations.len() {
            return;
        }
        let mut stock = self.instances.iter().filter(|of| of.is_spare()).count();
        while stock < usize::from(self.options.pool) && self.waiting.is_empty() {
            let free = self.instances.iter().position(|of| of.state == State::Free);
            let Some(at) = free else { return };
            if self.start(at, NONE, None) {
                stock += 1;
            } else if self.is_hopeless() {
                return;
            }
        }
    }

    /// Returns whether the stock is full, and all its containers are ready.
    pub(super) fn is_stocked(&self) -> bool {
        let ready = self.instances.iter().filter(|of| of.is_spare() && of.is_ready).count();
        ready >= usize::from(self.options.pool).min(self.instances.len())
    }

    /// Decides whether a container that has become idle is kept, reused or ended.
    pub(super) fn afterwards(&mut self, at: usize) {
        let now = Instant::now();
        let function = self.instances[at].function;
        if matches!(self.policy, Policy::Cold | Policy::Warm | Policy::Template | Policy::Restored)
        {
            return self.instances[at].end();
        }
        self.instances[at].measure();
        if self.reassign(at) {
            return;
        }
        let mut until = now + self.options.keep;
        if self.policy == Policy::Histogram {
            let passed = self.begin.map_or(Duration::ZERO, |(begin, _)| now - begin);
            self.habits[function].end(passed);
            if let Some(window) = self.habits[function].window() {
                until = now + window.until;
                if !window.from.is_zero() {
                    self.planned.push(Planned { function, at: now + window.from, until });
                    return self.instances[at].end();
                }
            }
        }
        self.instances[at].until = Some(until);
        self.instances[at].idle_since = now;
    }

    /// Assigns an idle container to a waiting invocation, or ends the container to make room for that invocation.
    /// Returns false if no invocation waits.
    pub(super) fn reassign(&mut self, at: usize) -> bool {
        let function = self.instances[at].function;
        let is_any = self.policy == Policy::Warm;
        let fits = |it: &usize| is_any || self.workload.invocations[*it].function == function;
        let place = self.waiting.iter().position(fits);
        match place.and_then(|place| self.waiting.remove(place)) {
            Some(invocation) => self.serve(at, invocation),
            None if self.waiting.is_empty() => return false,
            None => self.instances[at].end(),
        }
        true
    }

    /// Serves waiting invocations while there is room for another container.
    pub(super) fn next_waiting(&mut self) {
        while self.instances.iter().any(|of| of.state == State::Free)
            && let Some(invocation) = self.waiting.pop_front()
        {
            self.place(invocation);
        }
    }
}
