//! The event loop: one thread, which waits for all events.
//!
//! A loop of its own, and not the crate `containerd-shim`, because a process with several threads must not start
//! containers as dayfly does. The child of a clone has only one thread: a lock of the allocator that another thread
//! held is never released. In a process with threads, unshare(2) and setns(2) of user and time namespaces fail, and
//! PDEATHSIG is sent when the *thread* that made the child exits. A pool of threads or an executor such as tokio's is
//! therefore impossible.
//!
//! A shim that executes a runtime spends its time on executing programs: with `containerd-runc-shim`, a run takes 21.9
//! ms of CPU (Go's shim: 25.1 ms), and an exec 3.8 ms (3.9 ms).

use alloc::vec::Vec;
use core::time::Duration;

use rustix::event::Timespec;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};
use sys::Context;
use sys::signal::{SignalSet, set_mask, signalfd};
use sys::wait::Deadline;

use crate::bootstrap::Daemon;
use crate::caller::Caller;
use crate::poller::{Interest, Source};
use crate::shim::{Connected, Shim};
use crate::sweep::sweep_abandoned;
use crate::table::PendingStart;
use crate::task;
use crate::worker::Worker;

/// The maximum number of connections; further connections are closed. containerd makes one connection per container,
/// even if a pod has many containers.
const CONNECTIONS: usize = 1024;
/// Maximum time for sending the last events and answers at shutdown.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The time after which a shim without containers and connections exits.
const IDLE: Duration = Duration::from_secs(60);
const SIGTERM: u32 = 15;

/// Serves until the shutdown, or until the shim was idle for too long; returns the exit status.
pub(crate) fn serve(daemon: Daemon) -> i32 {
    let mut shim = match Shim::new(daemon) {
        Ok(shim) => shim,
        Err(_) => return 1,
    };
    match run(&mut shim) {
        Ok(()) => {
            // Closes the connections, so that no client waits for the sweep.
            let Shim { daemon, .. } = shim;
            sweep_abandoned(&daemon);
            0
        }
        Err(error) => {
            shim.daemon.log.error(error);
            1
        }
    }
}

fn run(shim: &mut Shim) -> Result<(), sys::Error> {
    // All signals are blocked and read in the loop. A write to a closed pipe therefore fails with
    // EPIPE and does not kill the shim.
    set_mask(SignalSet::ALL).context("rt_sigprocmask", "")?;
    sys::signal::reset_sigchld();
    let signals = signalfd(SignalSet::ALL).context("signalfd", "")?;
    set_child_subreaper(Some(getpid())).context("prctl", "PR_SET_CHILD_SUBREAPER")?;
    // Only processes with CAP_SYS_PTRACE on the host may read the memory of the shim and of its workers.
    sys::alloc::wipe_freed();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("prctl", "PR_SET_DUMPABLE")?;
    let add = |fd: rustix::fd::BorrowedFd<'_>, source| shim.poller.add(fd, source, Interest::IN);
    add(signals.as_fd(), Source::Signals).context("epoll_ctl", "signals")?;
    add(shim.daemon.listener.as_fd(), Source::Listener).context("epoll_ctl", "listener")?;
    let mut last: Option<Deadline> = None;
    // The time at which a shim without containers and connections exits. containerd may have died after it got the
    // shim's address.
    let mut idle: Option<Deadline> = None;
    loop {
        let is_idle = shim.is_idle() && !shim.is_shutting_down;
        idle = is_idle.then(|| idle.unwrap_or_else(|| Deadline::after(IDLE)));
        if idle.is_some_and(|end| end.left().is_none()) {
            shim.shut_down();
        }
        let due = last.into_iter().chain(idle).min();
        let events = shim.poller.wait(shim.limit(due).as_ref())?;
        // There may be free descriptors again, so the listening socket is polled again.
        shim.listen(true);
        for (source, interest) in events {
            shim.ready(source, interest, &signals);
        }
        shim.publisher.tick(&shim.poller);
        if let Some(warning) = shim.publisher.take_warning() {
            shim.daemon.log.warning(warning);
        }
        shim.end_drained();
        shim.end_late();
        shim.check_starts();
        shim.flush();
        // The loop continues for connections made after the shutdown began: they belong to another container, or will
        // be closed soon.
        if !shim.is_shutting_down || shim.has_late_clients() {
            last = None;
        } else {
            let end = *last.get_or_insert_with(|| Deadline::after(LAST_WORDS));
            let is_said = shim.publisher.is_idle()
                && shim.connections.values().all(|of| !of.connection.wants_to_write());
            if is_said || end.left().is_none() {
                last = None;
                match shim.daemon.retire()? {
                    // A client has connected, for another container of the group, or only to check whether a shim runs.
                    Some(socket) => shim.accept(socket),
                    None => return Ok(()),
                }
            }
        }
    }
}

impl Shim {
    /// Returns the time for which the loop may wait: the time until the next deadline, or `None` if
    /// there is no deadline.
    fn limit(&self, last: Option<Deadline>) -> Option<Timespec> {
        let pending_deletes = self.pending_deletes.iter().map(|(_, deadline)| *deadline);
        let workers = self.workers.iter().filter_map(Worker::deadline);
        let starts = self.starts.iter().filter_map(PendingStart::deadline);
        let waiters = self.tasks.waiters().filter_map(|caller| caller.deadline);
        let own = self.publisher.deadline().into_iter().chain(last);
        let due = pending_deletes.chain(workers).chain(starts).chain(waiters).chain(own).min()?;
        Some(due.left().unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Returns whether there are no containers, no workers and no connections.
    fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.workers.is_empty() && self.connections.is_empty()
    }

    /// Handles a ready descriptor.
    fn ready(&mut self, source: Source, interest: Interest, signals: &OwnedFd) {
        match source {
            Source::Listener => self.connect(),
            Source::Connection(key) => self.receive(key),
            Source::Signals => self.signalled(signals),
            Source::Stream(key, part) => {
                if let Some(process) = self.tasks.by_key_mut(key) {
                    process.streams.ready(&self.poller, part, interest);
                }
                self.go_on(key);
            }
            Source::Publisher(part) => self.publisher.ready(&self.poller, part, interest),
            Source::Oom(key) => self.tell_of_kills(key, false),
            Source::Start(key) => self.start_ready(key),
        }
    }

    /// Accepts a connection.
    fn connect(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match acceptfrom_with(&self.daemon.listener, flags) {
            Ok((socket, _)) if self.connections.len() < CONNECTIONS => self.accept(socket),
            Ok(_) => {
                let text = format_args!("more than {CONNECTIONS} connections: refused");
                self.daemon.log.warning(text);
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => {
                // The connection still waits to be accepted, so the poller would report it again at once.
                self.listen(false);
                self.daemon.log.warning(format_args!("accept4: {}", sys::errno::describe(errno)));
            }
        }
    }

    /// Starts or stops polling the listening socket.
    fn listen(&mut self, hears: bool) {
        if core::mem::replace(&mut self.hears, hears) != hears {
            let interest = if hears { Interest::IN } else { Interest::empty() };
            let _ = self.poller.modify(&self.daemon.listener, Source::Listener, interest);
        }
    }

    /// Handles the calls on a connection.
    fn receive(&mut self, key: u32) {
        let Some(connected) = self.connections.get_mut(&key) else { return };
        match connected.connection.receive() {
            Ok(calls) => {
                for call in calls {
                    let timeout = call.timeout.map(Duration::from_nanos);
                    let deadline = timeout.map(Deadline::after);
                    let caller = Caller { connection: key, stream: call.stream, deadline };
                    task::serve(self, caller, &call);
                }
            }
            // containerd has exited or closed the connection: containers keep running.
            Err(_) => self.disconnect(key),
        }
    }

    /// Sends pending answers, and updates the polled events.
    fn flush(&mut self) {
        let mut gone = Vec::new();
        for (key, connected) in &mut self.connections {
            let Connected { connection, interest } = connected;
            if connection.flush().is_err() {
                gone.push(*key);
                continue;
            }
            let mut wanted = Interest::empty();
            wanted.set(Interest::IN, connection.wants_to_read());
            wanted.set(Interest::OUT, connection.wants_to_write());
            if core::mem::replace(interest, wanted) != wanted {
                let _ = self.poller.modify(connection.fd(), Source::Connection(*key), wanted);
            }
        }
        for key in gone {
            self.disconnect(key);
        }
    }

    fn signalled(&mut self, signals: &OwnedFd) {
        // struct signalfd_siginfo, whose first member is the signal.
        let mut information = [0; 128];
        while rustix::io::read(signals, &mut information) == Ok(128) {
            let [a, b, c, d, ..] = information;
            if u32::from_ne_bytes([a, b, c, d]) == SIGTERM {
                match self.tasks.is_empty() {
                    true => self.shut_down(),
                    false => self.daemon.log.warning("SIGTERM: ignored, there are containers"),
                }
            }
        }
        self.reap();
    }
}
