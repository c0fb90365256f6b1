//! Starts that need no worker: the loop itself sends the message to the waiting init, and learns
//! from epoll that the result has arrived.
//!
//! A worker performs the other starts: those of containers with startContainer or poststart hooks or
//! with a trace, and those on which the loop would block. A worker also reports a failed start.
//!
//! If init has not answered after 100 ms, the loop checks whether the container is frozen. If so, it withdraws the
//! message. A message that init has read cannot be withdrawn; SIOCOUTQ (unix(7)) tells, because it counts unread bytes.
//!
//! By a worker, `Start` took at least 0.68 ms; here it takes at least 0.44 ms (120 containers, medians 1.0 ms and 0.8
//! ms on a noisy machine).

use alloc::vec::Vec;

use container::{Starting, Status};
use proto::ttrpc;
use sys::wait::Deadline;

use crate::caller::{Answered, Caller, Outcome, failed, failed_as};
use crate::poller::{Interest, Source};
use crate::shim::Shim;
use crate::table::{PendingStart, Place};
use crate::worker::{Failed, Job, Kind};

impl Shim {
    /// Starts the program of a created container, whose init has the key `process`.
    pub(crate) fn start(&mut self, caller: Caller, process: u32, place: Place) -> Answered {
        let task = self.tasks.of_process(process);
        let reached = match task.is_some_and(|task| task.starts_plainly) {
            true => Starting::reach(&place.root, &place.id),
            false => None,
        };
        let Some(starting) = reached.and_then(|starting| self.send_start(process, starting)) else {
            return self.start_by_worker(caller, process, &place);
        };
        let prompt = Some(Deadline::after(Starting::PROMPT));
        self.starts.push(PendingStart { process, caller, place, starting, prompt });
        Ok(Outcome::Later)
    }

    /// Sends the start message. Returns `None` if it was not sent.
    fn send_start(&self, process: u32, starting: Starting) -> Option<Starting> {
        self.poller.add(starting.fd(), Source::Start(process), Interest::IN).ok()?;
        if !starting.begin() {
            let _ = self.poller.remove(starting.fd());
            return None;
        }
        Some(starting)
    }

    /// Removes a start from the table. A worker that has just begun may have a copy of the start's descriptor, so the
    /// descriptor is removed from the poller explicitly.
    fn take_start(&mut self, at: usize) -> PendingStart {
        let start = self.starts.swap_remove(at);
        let _ = self.poller.remove(start.starting.fd());
        start
    }

    /// Handles the end of a start.
    pub(crate) fn start_ready(&mut self, process: u32) {
        let Some(at) = self.starts.iter().position(|start| start.process == process) else {
            return;
        };
        let PendingStart { caller, place, starting, .. } = self.take_start(at);
        let answer = match starting.finish() {
            Ok(()) => self.started(process, Ok(None)).map_err(|status| failed_as("start", status)),
            // The worker waits for init's exit, and reports the failure.
            Err(error) => {
                let job = start_job(caller, process);
                let begun = self.begin(&place.id, job, None, |work| {
                    let container = work.store(&place).and_then(|store| store.container(&place.id));
                    Err(Failed::from(match container {
                        Ok(container) => container.explain_start(error),
                        Err(_) => error,
                    }))
                });
                match begun {
                    Ok(_) => return,
                    Err(status) => self.started(process, Err(status)),
                }
            }
        };
        self.answer(caller, answer);
    }

    /// Checks the starts whose inits have not answered promptly. If an init is frozen, its start is withdrawn and
    /// fails, as with `dayfly start`. Starts whose callers' deadlines have passed are ended.
    pub(crate) fn check_starts(&mut self) {
        let is_over = |deadline: Deadline| deadline.left().is_none();
        for at in (0..self.starts.len()).rev() {
            let Some(start) = self.starts.get_mut(at) else { continue };
            let process = start.process;
            if start.caller.is_late() && start.starting.has_ended() {
                self.start_ready(process);
            } else if start.caller.is_late() {
                let PendingStart { caller, .. } = self.take_start(at);
                let late = ttrpc::Status::deadline_exceeded("not done in time");
                let answer = self.started(process, Err(late));
                self.answer(caller, answer.map_err(|status| failed_as("start", status)));
            } else if start.prompt.is_some_and(is_over) {
                start.prompt = None;
                let cgroup = self.tasks.of_process(process).and_then(|task| task.cgroup.as_ref());
                let refused = match cgroup.map_or(Ok(false), container::is_frozen) {
                    Ok(false) => continue,
                    Ok(true) => container::Error::CannotStart(Status::Paused),
                    Err(error) => error,
                };
                if start.starting.withdraw() {
                    let PendingStart { caller, .. } = self.take_start(at);
                    let answer = self.started(process, Err(failed("start", refused)));
                    self.answer(caller, answer);
                }
            }
        }
    }

    /// Returns whether the process with this key is an init that still waits to be started.
    pub(crate) fn is_due(&self, process: u32) -> bool {
        let task = self.tasks.of_process(process).filter(|task| task.init().key == process);
        task.is_some_and(|task| task.init().is_alive() && Starting::is_due(&task.root, &task.id))
    }

    fn start_by_worker(&mut self, caller: Caller, process: u32, place: &Place) -> Answered {
        self.begin(&place.id, start_job(caller, process), None, |work| {
            let container = work.store(place)?.container(&place.id)?;
            container.start(sys::Args::empty(), work.warn)?;
            Ok(Vec::new())
        })
    }
}

fn start_job(caller: Caller, process: u32) -> Job {
    Job { command: "start", caller: Some(caller), kind: Kind::Start { process } }
}
