//! The shim's state, and the operations that serve calls: starting workers, sending answers, publishing events.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use proto::messages::events::TaskCreate;
use proto::messages::task::{CreateTaskRequest, DeleteResponse};
use proto::ttrpc::{Connection, Status};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::geteuid;
use sys::Context;
use sys::wait::Deadline;

use crate::bootstrap::{Daemon, KILLED};
use crate::caller::{Answered, Caller, Outcome, failed};
use crate::event::{Event, Publisher};
use crate::io::{Asked, Ends, Streams};
use crate::limits::Descriptors;
use crate::poller::{Interest, Poller, Source};
use crate::table::{Exit, PendingStart, Process, Stage, Tasks, Time};
use crate::worker::{self, Failed, Job, Work, Worker};

/// The maximum time for which the answer to Delete is delayed while the remaining output of the
/// process is copied.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// All state of the event loop.
pub(crate) struct Shim {
    pub daemon: Daemon,
    pub poller: Poller,
    pub publisher: Publisher,
    pub connections: BTreeMap<u32, Connected>,
    pub tasks: Tasks,
    pub workers: Vec<Worker>,
    /// The starts that the loop itself performs.
    pub starts: Vec<PendingStart>,
    /// Exits of children that match no process in the table. A running worker may still report in its answer that it
    /// has created such a child for a container.
    pub strays: Vec<(u32, Exit)>,
    /// Processes to delete once their output has been copied, each with the deadline of the copying.
    pub pending_deletes: Vec<(PendingDelete, Deadline)>,
    pub is_shutting_down: bool,
    /// The lowest key of the connections made after the shutdown began.
    first_late_client: u32,
    /// Processes whose loggers are not ready yet.
    pub pending: Vec<Pending>,
    /// An open descriptor of /dev/null.
    pub null: OwnedFd,
    /// Whether the poller reports new connections.
    pub hears: bool,
    descriptors: Descriptors,
    last_key: u32,
}

/// A connection from containerd.
pub(crate) struct Connected {
    pub connection: Connection,
    /// The events polled on the connection.
    pub interest: Interest,
}

/// A process whose Delete call is answered once the process's remaining output is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingDelete {
    /// The caller to answer.
    pub caller: Caller,
    /// The process's key.
    pub process: u32,
}

/// The descriptors that a new process gets.
pub(crate) struct Opened {
    ends: Ends,
    /// The socket over which the process sends its terminal's master.
    console: Option<OwnedFd>,
}

/// A function that starts a process's worker, called once the process's streams are ready.
pub(crate) type Launch = Box<dyn FnOnce(&mut Shim, Opened) -> Answered>;

/// A process that is started once its logger is ready.
pub(crate) struct Pending {
    process: u32,
    caller: Caller,
    command: &'static str,
    opened: Opened,
    launch: Launch,
}

impl Shim {
    /// Returns a shim without containers.
    ///
    /// # Errors
    /// Those of epoll_create1(2), and of opening /dev/null.
    pub fn new(daemon: Daemon) -> Result<Self, sys::Error> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let null =
            rustix::fs::open(c"/dev/null", flags, Mode::empty()).context("open", "/dev/null")?;
        Ok(Self {
            poller: Poller::new()?,
            publisher: Publisher::new(daemon.publish_address.as_deref(), &daemon.namespace),
            daemon,
            connections: BTreeMap::new(),
            tasks: Tasks::default(),
            workers: Vec::new(),
            starts: Vec::new(),
            strays: Vec::new(),
            pending_deletes: Vec::new(),
            is_shutting_down: false,
            first_late_client: 0,
            pending: Vec::new(),
            null,
            hears: true,
            descriptors: Descriptors::raise(),
            last_key: 0,
        })
    }

    /// Returns an unused key.
    pub fn next_key(&mut self) -> u32 {
        self.last_key = self.last_key.wrapping_add(1);
        self.last_key
    }

    /// Answers a call if its caller is still connected.
    pub fn answer(&mut self, caller: Caller, result: Result<Vec<u8>, Status>) {
        if let Some(connected) = self.connections.get_mut(&caller.connection) {
            connected.connection.respond(caller.stream, result);
        }
    }

    /// Publishes an event.
    pub fn publish(&mut self, event: Event) {
        self.publisher.publish(&self.poller, event);
    }

    /// Opens the streams of the process with this key. The streams must not be open yet. `command` is the dayfly
    /// command that error messages name.
    ///
    /// # Errors
    /// If a stream cannot be opened.
    pub fn open_streams(&mut self, key: u32, command: &str) -> Result<Opened, Status> {
        let task = self.tasks.of_process(key).ok_or_else(|| Status::not_found("process"))?;
        let process = task.processes.iter().find(|process| process.key == key);
        let process = process.ok_or_else(|| Status::not_found("process"))?;
        let stdio = &process.stdio;
        let name = if process.exec_id.is_empty() { &task.id } else { &process.exec_id };
        let opened = Streams::open(&Asked {
            stdin: &stdio.stdin,
            stdout: &stdio.stdout,
            stderr: &stdio.stderr,
            terminal: stdio.terminal,
            namespace: &self.daemon.namespace,
            process: name,
            owner: Some((task.options.io_uid, task.options.io_gid))
                .filter(|owner| *owner != (0, 0)),
        });
        let (mut streams, ends) = opened.map_err(|error| failed(command, error))?;
        streams.register(&self.poller, key).map_err(|error| failed(command, error))?;
        let mut console = None;
        let mut ours = None;
        if stdio.terminal {
            let flags = SocketFlags::CLOEXEC;
            let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
            let (mine, theirs) =
                pair.context("socketpair", "console").map_err(|error| failed(command, error))?;
            (console, ours) = (Some(theirs), Some(mine));
        }
        if let Some(process) = self.tasks.by_key_mut(key) {
            (process.streams, process.console) = (streams, ours);
        }
        Ok(Opened { ends, console })
    }

    /// Starts a process's worker: at once, or as soon as the process's logger is ready.
    pub fn when_ready(
        &mut self,
        process: u32,
        caller: Caller,
        command: &'static str,
        opened: Opened,
        launch: Launch,
    ) -> Answered {
        match self.may_begin(process, command)? {
            true => launch(self, opened),
            false => {
                self.pending.push(Pending { process, caller, command, opened, launch });
                Ok(Outcome::Later)
            }
        }
    }

    fn may_begin(&mut self, process: u32, command: &str) -> Result<bool, Status> {
        let process = self.tasks.by_key_mut(process).ok_or_else(|| Status::not_found("process"))?;
        process.streams.may_begin().map_err(|error| failed(command, error))
    }

    /// If the process's logger has become ready, starts the worker that waited for it; if the logger has failed,
    /// answers with the logger's error.
    pub fn go_on(&mut self, process: u32) {
        let Some(at) = self.pending.iter().position(|pending| pending.process == process) else {
            return;
        };
        let command = self.pending.get(at).map_or("", |pending| pending.command);
        let may_begin = self.may_begin(process, command);
        if may_begin == Ok(false) {
            return;
        }
        let Pending { caller, opened, launch, .. } = self.pending.swap_remove(at);
        match may_begin.and_then(|_| launch(self, opened)) {
            Ok(Outcome::Later) => {}
            Ok(Outcome::Answer(answer)) => self.answer(caller, Ok(answer)),
            Err(status) => {
                let task = self.tasks.of_process(process).filter(|task| {
                    task.init().key == process && task.init().stage == Stage::Creating
                });
                match task {
                    Some(task) => self.forget(task.init().key),
                    None => self.not_started(process),
                }
                self.answer(caller, Err(status));
            }
        }
    }

    /// Removes a container with all of its processes from the table.
    pub fn forget(&mut self, key: u32) {
        let Some(task) = self.tasks.remove(key) else { return };
        if let Some(watch) = task.oom {
            watch.end(&self.poller);
        }
        task.processes.into_iter().for_each(|process| self.give_up(process));
        for caller in task.deleters {
            let exited_at = Some(Time::now().to_message());
            let deleted = DeleteResponse { pid: 0, exit_status: KILLED, exited_at };
            self.answer(caller, Ok(deleted.encode()));
        }
    }

    /// Closes the resources of a process that was removed from the table, and answers its waiters with NotFound.
    pub fn give_up(&mut self, mut process: Process) {
        process.streams.abandon(&self.poller);
        let is_its = |pending: &mut Pending| pending.process == process.key;
        let pending: Vec<Caller> =
            self.pending.extract_if(.., is_its).map(|pending| pending.caller).collect();
        for caller in process.waiters.into_iter().chain(pending) {
            let gone = format!("process {} was deleted", process.exec_id);
            self.answer(caller, Err(Status::not_found(gone)));
        }
    }

    /// Starts a worker for the container `id`. The worker gets the descriptors in `opened`.
    pub fn begin(
        &mut self,
        id: &str,
        job: Job,
        opened: Option<Opened>,
        work: impl FnOnce(&Work<'_>) -> Result<Vec<u8>, Failed>,
    ) -> Answered {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) =
            pair.context("socketpair", "worker").map_err(|error| failed(job.command, error))?;
        let (ends, console) = match opened {
            Some(Opened { ends, console }) => (ends, console),
            None => (Ends::default(), None),
        };
        let null = self.null.as_fd();
        let streams = [&ends.stdin, &ends.stdout, &ends.stderr];
        let streams = streams.map(|end| end.as_ref().map_or(null, AsFd::as_fd));
        let has_console = console.is_some();
        let console = console.as_ref().map_or(null, AsFd::as_fd);
        let log = self.daemon.log.fd().unwrap_or(null);
        let others = [theirs.as_fd(), console, log, self.daemon.listener.as_fd()];
        let (command, daemon) = (job.command, &self.daemon);
        let in_worker = |others| {
            self.descriptors.restore();
            worker::run(command, id, daemon, others, has_console, work)
        };
        #[expect(unsafe_code, reason = "descriptors of the copied memory are closed")]
        // SAFETY: the shim has one thread. A worker uses the descriptors in `others`, which `Work` lends to `work`, and
        // those that it opens itself; of the shim's values it reads requests, options and the places of containers.
        let child = unsafe { sys::worker::begin(streams, others, in_worker) };
        let child = child.context("clone", "worker").map_err(|error| failed(job.command, error))?;
        self.workers.push(Worker { child, job, answer: ours, is_late: false });
        Ok(Outcome::Later)
    }

    /// Stores the TaskCreate event of a container, which is published once the pid is known.
    pub fn note_created(&mut self, key: u32, request: &CreateTaskRequest) {
        if let Some(task) = self.tasks.task_of_process_mut(key) {
            task.created = Some(TaskCreate {
                container_id: request.id.clone(),
                bundle: request.bundle.clone(),
                rootfs: request.rootfs.clone(),
                io: Some(task.init().stdio.clone()),
                checkpoint: request.checkpoint.clone(),
                pid: 0,
            });
        }
    }

    /// Answers a Delete call once the process's output has been copied, or after [`LAST_OUTPUT`].
    pub fn await_output(&mut self, delete: PendingDelete) {
        if let Some(process) = self.tasks.by_key_mut(delete.process) {
            process.streams.settle(&self.poller);
        }
        self.pending_deletes.push((delete, Deadline::after(LAST_OUTPUT)));
        self.end_drained();
    }

    /// Kills workers whose callers' deadlines have passed, and answers waiters whose deadlines have passed.
    pub fn end_late(&mut self) {
        self.workers.iter_mut().for_each(Worker::end_if_late);
        for caller in self.tasks.take_waiters(Caller::is_late) {
            self.answer(caller, Err(Status::deadline_exceeded("has not ended in time")));
        }
    }

    /// Begins the shutdown of the loop.
    pub fn shut_down(&mut self) {
        self.is_shutting_down = true;
        self.first_late_client = self.next_key();
    }

    /// Returns whether any open connection was made after the shutdown began. If so, the loop exits after these
    /// connections are closed, unless one of them creates a container.
    pub fn has_late_clients(&self) -> bool {
        self.connections.range(self.first_late_client..).next().is_some()
    }

    /// Accepts a connection if the peer's uid is the shim's. The socket's mode already ensures this, unless the mode
    /// was changed.
    pub fn accept(&mut self, socket: OwnedFd) {
        if !socket_peercred(&socket).is_ok_and(|peer| peer.uid == geteuid()) {
            return self.daemon.log.warning("a connection of another user: refused");
        }
        let key = self.next_key();
        let connection = Connection::new(socket);
        let interest = Interest::IN;
        match self.poller.add(connection.fd(), Source::Connection(key), interest) {
            Ok(()) => drop(self.connections.insert(key, Connected { connection, interest })),
            Err(errno) => {
                self.daemon.log.warning(format_args!("epoll_ctl: {}", sys::errno::describe(errno)));
            }
        }
    }

    /// Closes a connection and drops its pending calls.
    pub fn disconnect(&mut self, key: u32) {
        if let Some(Connected { connection, .. }) = self.connections.remove(&key) {
            // The descriptor is removed explicitly: a copy of it in a worker that has just started would keep it in the
            // poller.
            let _ = self.poller.remove(connection.fd());
        }
        drop(self.tasks.take_waiters(|caller| caller.connection == key));
    }
}
