//! The host actor makes init.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use plan::step::{Memory, NumberSet, Relay, Slot, TimeNamespace};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use sys::Context;
use sys::clone::{Child, CloneFlags};
use trace::Recorder;

use super::hear::unexpected;
use super::{Host, no_child};
use crate::birth::Birth;
use crate::channel::{self, Message};
use crate::clock::{self, Elsewhere};
use crate::network::Network;
use crate::{Error, hooks, relay};

impl Host<'_> {
    /// setns(2) of a PID namespace changes where the caller's children are born, not the caller.
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

    /// Children run where their parent does.
    pub(super) fn run_on(&mut self, cpus: &NumberSet) -> Result<(), Error> {
        let own = sched_getaffinity(None).context("sched_getaffinity", "")?;
        sched_setaffinity(None, &sys::sched::cpu_set(cpus.iter()))
            .context("sched_setaffinity", cpus)?;
        self.own_cpus = Some(own);
        Ok(())
    }

    pub(super) fn clone_init(
        &mut self,
        flags: CloneFlags,
        relay: Option<Relay>,
        memory: Memory,
        time: Option<&'static TimeNamespace>,
        into_cgroup: bool,
    ) -> Result<(), Error> {
        let (ours, theirs) = channel::pair().context("socketpair", "")?;
        let mut procs = Vec::new();
        let mut born_in = None;
        if let Some(cgroup) = &self.cgroup {
            procs = cgroup.procs_fds()?;
            match into_cgroup {
                true => born_in = cgroup.dir_fd(),
                false => procs.extend(cgroup.unified_procs_fd()?),
            }
        }
        let steps = self.plan.init.len();
        let mut recorder = match (self.tracer.is_on(), memory) {
            (false, _) => None,
            (true, Memory::Shared) => Some(Recorder::new(steps)),
            (true, Memory::Copied) => Some(Recorder::shared(steps).context("mmap", "trace")?),
        };
        let birth = || Birth {
            plan: self.plan,
            slots: self.slots,
            procs: procs.iter().map(AsRawFd::as_raw_fd).collect(),
            channel: theirs.as_raw_fd(),
            host_end: ours.as_raw_fd(),
            recorder: recorder.clone(),
            flags,
            relay,
            time,
        };
        let at_birth = if relay.is_some() { CloneFlags::empty() } else { flags };
        let elsewhere = match time.filter(|_| !relay.is_some_and(|relay| relay.time)) {
            Some(time) => Some(Elsewhere::enter(time, self.slots)?),
            None => None,
        };
        let mut child = crate::clone::begin(birth(), at_birth, born_in, memory);
        // The cgroup hands controllers down to those below it and so has no processes itself, or is gone.
        if let (Err(Errno::BUSY | Errno::OPNOTSUPP | Errno::NODEV), Some(_)) = (&child, born_in)
            && let Some(cgroup) = self.cgroup_of_init()
        {
            child = crate::clone::begin(birth(), at_birth, cgroup.dir_fd(), memory);
        }
        // A user in a session may not put it there, and the user's systemd may.
        let of_user = self.cgroup.as_ref().filter(|cgroup| cgroup.is_of_user());
        let moves = child.as_ref().is_err_and(|errno| *errno == Errno::ACCESS) && of_user.is_some();
        if moves {
            child = crate::clone::begin(birth(), at_birth, None, memory);
        }
        let child = child.map_err(|errno| {
            let hint = match errno {
                Errno::ACCESS if born_in.is_some() => {
                    " into its cgroup (which takes the right to write to cgroup.procs of the \
                         nearest cgroup above both it and the caller's)"
                }
                _ => "",
            };
            sys::Error::new("clone3", format!("{at_birth:?}{hint}"), errno)
        });
        let back = elsewhere.map_or(Ok(()), Elsewhere::leave);
        let child = child?;
        drop(theirs);
        let child = match relay {
            None => child,
            Some(_) => self.receive_init(child, &ours)?,
        };
        if let Some(recorder) = &mut recorder {
            if time.is_some() {
                recorder.set_ahead(clock::ahead(child.pid, self.slots).unwrap_or(0));
            }
            self.tracer.joined(plan::INIT, child.pid, recorder, self.plan, self.plan.host.len());
        }
        let pid = child.pid.as_raw_nonzero().get();
        self.child = Some(child);
        self.channel = Some(ours);
        back?;
        if let (true, Some(cgroup)) = (moves, &self.cgroup) {
            cgroup.add(pid)?;
        }
        if let Some(own) = self.own_cpus.take() {
            sched_setaffinity(None, &own).context("sched_setaffinity", "own cpus")?;
        }
        if let Some(own) = self.own_pid_namespace.take() {
            sys::ns::join(own.as_fd(), CloneFlags::NEWPID).context("setns", "own pid namespace")?;
        }
        Ok(())
    }

    /// Takes init from the relay, which then ends.
    pub(super) fn receive_init(&self, relay: Child, channel: &OwnedFd) -> Result<Child, Error> {
        let received = relay::receive(&relay.pidfd, channel, self.slots.get(Slot::PROC));
        let ended = hooks::wait(&relay.pidfd);
        match received {
            Ok(child) => Ok(child),
            Err(relay::Refused::Died) => {
                Err(Error::death(ended.ok().and_then(|status| status.terminating_signal())))
            }
            Err(relay::Refused::Failed(step, errno)) => {
                Err(Error::Init { step: step.into(), detail: String::new(), errno })
            }
            Err(relay::Refused::Init(failed)) => {
                Err(unexpected(self.plan, failed, &Message::Relayed, || Error::death(None)))
            }
            Err(relay::Refused::System(error)) => Err(error.into()),
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
