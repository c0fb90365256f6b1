//! The creation of init by the parent.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32};

use plan::Labelled;
use plan::step::{InitStep, Intermediate, Memory, NumberSet, Slot};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::sched_setaffinity;
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::sched::Affinity;
use sys::shared::Leaked;
use trace::Recorder;

use super::attempt::{Attempt, AttemptError, Moved};
use super::hear::unexpected;
use super::{Parent, no_child};
use crate::clock::{self, Elsewhere};
use crate::network::Network;
use crate::{Error, intermediate};
use init::channel::{self, Message, Word};
use init::{Filter, Job, hooks};

/// The result of a successful attempt to create init.
pub(super) struct Made {
    child: Child,
    channel: OwnedFd,
    recorder: Option<Recorder>,
    /// Whether init waits to be moved before it creates its cgroup namespace.
    awaits_move: bool,
    /// The result of the parent's return to its own time namespace.
    back: Result<(), sys::Error>,
}

impl Parent<'_> {
    /// Selects the PID namespace in which children are created. setns(2) does not change the caller's own PID
    /// namespace.
    pub(super) fn enter_pid_namespace(&mut self, slot: Slot) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let own = openat(CWD, c"/proc/self/ns/pid", flags, Mode::empty())
            .context("open", "/proc/self/ns/pid")?;
        let target = self.slots.get(slot).ok_or_else(no_child)?;
        let result = match slot {
            Slot::CONTAINER => sys::ns::join_process(target, CloneFlags::NEWPID),
            _ => sys::ns::join(target, CloneFlags::NEWPID),
        };
        result.context("setns", "pid namespace")?;
        self.own_pid_namespace = Some(own);
        Ok(())
    }

    /// Sets this process's CPU affinity, which children inherit.
    pub(super) fn run_on(&mut self, cpus: &NumberSet) -> Result<(), Error> {
        let own = Affinity::of(None).context("sched_getaffinity", "")?;
        sched_setaffinity(None, &sys::sched::cpu_set(cpus.iter()))
            .context("sched_setaffinity", cpus)?;
        self.own_cpus = Some(Box::new(own));
        Ok(())
    }

    /// Creates init, and returns to the namespaces and CPUs that this process left for the clone, even if the clone fails.
    pub(super) fn clone_init(&mut self) -> Result<(), Error> {
        let made = self.make_init();
        let own = self.return_to_own();
        let (made, mut attempt) = made?;
        sys::exec::close_each(core::mem::take(&mut attempt.procs));
        let Made { child, channel, mut recorder, awaits_move, back } = made;
        if let Some(recorder) = &mut recorder {
            if let Some((step, ahead)) = self.plan.init.iter().enumerate().find_map(own_time) {
                recorder.set_move(step, ahead);
            }
            if attempt.time.is_some() {
                recorder.set_ahead(clock::ahead(child.pid, &self.slots).unwrap_or(0));
            }
            self.tracer.joined(plan::INIT, child.pid, recorder, self.plan, self.plan.parent.len());
        }
        let pid = child.pid.as_raw_nonzero().get();
        self.child = Some(child);
        self.channel = Some(channel);
        back?;
        own?;
        if attempt.moved != Moved::No {
            self.move_init(pid)?;
        }
        if awaits_move {
            self.say(Word::Moved)?;
        }
        Ok(())
    }

    /// Makes one attempt to create init.
    pub(super) fn try_clone(&mut self, attempt: &Attempt) -> Result<Made, AttemptError> {
        let Attempt { flags, intermediate, time, memory, .. } = *attempt;
        let (ours, theirs) = channel::pair().context("socketpair", "")?;
        // An intermediate that shares the memory needs no relay: the intermediate stores init's pid in `job`, and the
        // parent waits for the intermediate's exit.
        let relay = match (intermediate, memory) {
            (Some(_), Memory::Copied) => Some(channel::pair().context("socketpair", "")?),
            _ => None,
        };
        let steps = self.plan.init.len();
        // Init shares the memory only if the parent itself creates init.
        let is_shared = memory == Memory::Shared && intermediate.is_none();
        let recorder = match (self.tracer.is_on(), is_shared) {
            (false, _) => None,
            (true, true) => Some(Recorder::new(steps)),
            (true, false) => Some(Recorder::shared(steps).context("mmap", "trace")?),
        };
        let ends = [Some(&theirs), relay.as_ref().map(|(_, theirs)| theirs)];
        let procs: Vec<BorrowedFd<'_>> = attempt.procs.iter().map(AsFd::as_fd).collect();
        let begun = &*Box::leak(Box::new(AtomicBool::new(false)));
        self.begun = Some(begun);
        let job = Leaked::from(Box::new(Job {
            own_nofile: self.plan.descriptors.map(|descriptors| descriptors.own),
            steps: &self.plan.init,
            filter: self
                .plan
                .filter
                .as_ref()
                .map(|program| Filter { instructions: &program.filter, flags: program.flags }),
            state: self.plan.state,
            slots: self.slots.of_init(),
            procs: Leaked::from(procs.into_boxed_slice()),
            channel: theirs.as_fd(),
            parent_end: ours.as_fd(),
            relay: relay.as_ref().map(|(_, theirs)| theirs.as_fd()),
            recorder: recorder.clone(),
            flags,
            intermediate,
            time,
            memory,
            kept: self.kept(intermediate, ends, &attempt.procs),
            is_moved: attempt.moved == Moved::Everywhere,
            pause: sys::defence::pause_at(self.plan.init.iter().map(|step| step.label().name)),
            begun,
            made: AtomicI32::new(0),
        }));
        let elsewhere =
            match time.filter(|_| !intermediate.is_some_and(|intermediate| intermediate.time)) {
                Some(time) => Some(Elsewhere::enter(time, &self.slots)?),
                None => None,
            };
        if intermediate.is_some() {
            // Until the parent has both init's pid and a pidfd, the kernel must not reap init: a pid could be reused,
            // and a pidfd no longer tells the pid.
            sys::signal::reset_sigchld();
        }
        let born_in = attempt.born_in(self.cgroup.as_ref());
        let child = init::begin(job, attempt.at_birth(), born_in).map_err(AttemptError::Clone);
        let child = child.and_then(|child| match intermediate {
            None => Ok(child),
            Some(_) => {
                let relay = relay.as_ref().map(|(ours, _)| ours);
                self.receive_init(child, &ours, relay, &job).map_err(AttemptError::Other)
            }
        });
        let back = elsewhere.map_or(Ok(()), Elsewhere::leave);
        let awaits_move = job.late_cgroup_namespace().is_some();
        match (child, back) {
            (Ok(child), back) => Ok(Made { child, channel: ours, recorder, awaits_move, back }),
            (Err(_), Err(lost)) => Err(lost.into()),
            (Err(error), Ok(())) => Err(error),
        }
    }

    /// Opens the files through which init joins its cgroup: the files of the v1 hierarchies, and cgroup.procs of the v2
    /// cgroup unless init is created in that cgroup (CLONE_INTO_CGROUP).
    pub(super) fn open_entrances(&self, attempt: &Attempt) -> Result<Vec<OwnedFd>, Error> {
        let Some(cgroup) = &self.cgroup else { return Ok(Vec::new()) };
        let mut procs = cgroup.entrances(attempt.thread_move)?;
        if !attempt.into_cgroup {
            procs.extend(cgroup.unified_procs_fd()?);
        }
        Ok(procs)
    }

    /// Returns the descriptors that an intermediate leaves open for init if it closes all others: the descriptors that
    /// init's own steps use, `ends`, and `procs` if init joins its cgroups itself.
    fn kept(
        &self,
        intermediate: Option<Intermediate>,
        ends: [Option<&OwnedFd>; 2],
        procs: &[OwnedFd],
    ) -> &'static [RawFd] {
        let Some(intermediate) = intermediate.filter(|intermediate| intermediate.strips.is_some())
        else {
            return &[];
        };
        let own = self.plan.init.get(intermediate.steps..).unwrap_or_default();
        let joins = own.iter().any(|step| matches!(step, InitStep::JoinCgroups));
        // If init opens a procfs of its own, it does not need the host's.
        let has_own_proc = own.iter().any(|step| matches!(step, InitStep::OpenProc));
        let slots = own.iter().flat_map(InitStep::slots);
        let slots = slots.filter(|slot| !(has_own_proc && *slot == Slot::PROC));
        let slots = slots.filter_map(|slot| Some(self.slots.get(slot)?.as_raw_fd()));
        let procs = procs.iter().filter(|_| joins).map(AsRawFd::as_raw_fd);
        let ends = ends.into_iter().flatten().map(AsRawFd::as_raw_fd);
        slots.chain(procs).chain(ends).collect::<Vec<RawFd>>().leak()
    }

    /// Returns whether the parent may move init to its cgroups, instead of letting the intermediate join them. A move
    /// takes longer.
    pub(super) fn may_move(&self, intermediate: Option<Intermediate>) -> bool {
        let steps = intermediate.map_or(0, |intermediate| intermediate.steps);
        let first = self.plan.init.get(..steps).unwrap_or_default();
        self.cgroup.is_some() && first.iter().any(|step| matches!(step, InitStep::JoinCgroups))
    }

    /// Receives init from the intermediate, which then exits.
    fn receive_init(
        &self,
        intermediate: Child,
        channel: &OwnedFd,
        relay: Option<&OwnedFd>,
        job: &Job<'_>,
    ) -> Result<Child, Error> {
        let (received, ended) = match relay {
            None => {
                let ended = hooks::wait(&intermediate.pidfd);
                (intermediate::take_over(job, channel), ended)
            }
            Some(relay) => {
                let proc = self.slots.get(Slot::PROC);
                (
                    intermediate::receive(&intermediate.pidfd, relay, proc),
                    hooks::wait(&intermediate.pidfd),
                )
            }
        };
        match received {
            Ok(child) => Ok(child),
            Err(intermediate::Refused::Died) => Err(Error::death(
                self.plan,
                ended.ok().and_then(|status| status.terminating_signal()),
            )),
            Err(intermediate::Refused::Failed(step, errno)) => {
                Err(Error::Init { step: step.into(), detail: String::new(), errno })
            }
            Err(intermediate::Refused::Init(failed)) => {
                Err(unexpected(self.plan, *failed, &Message::Delivered, || {
                    Error::death(self.plan, None)
                }))
            }
            Err(intermediate::Refused::System(error)) => Err(error.into()),
        }
    }

    pub(super) fn make_network(&mut self) -> Result<(), Error> {
        let network = match &mut self.network {
            Some(begun) => begun,
            None => self.network.insert(Network::begin(self.tracer)?),
        };
        if let Some(socket) = network.take_socket() {
            self.slots.set(Slot::NETWORK, socket);
        }
        Ok(())
    }
}

/// If init enters a time namespace of its own in `step`, returns the step's index, and the number of nanoseconds by
/// which init's clock is ahead from then on.
fn own_time((number, step): (usize, &InitStep)) -> Option<(usize, i64)> {
    match step {
        InitStep::EnterTime { ahead, .. } => Some((number, *ahead)),
        _ => None,
    }
}
