//! Workers: operations that may block, or whose memory is never freed, run in a child process that is a copy of the
//! shim.
//!
//! A worker calls the crate `container` as a dayfly command does, answers in one packet, and exits. A worker that
//! creates a container also sends an earlier packet, as soon as it has claimed the container's id; one that deletes it,
//! before it unmounts the root filesystem. If the shim exits, its workers are killed. When a worker exits, the processes
//! that it created become children of the shim, which is a subreaper.
//!
//! The alternative is to split `create` and `exec` into parts that the loop runs itself. Workers were chosen because
//!
//! - data that init's steps borrow is never freed (`plan/src/keep.rs`): a shim would grow with each exec;
//! - the OOM killer kills all that share the memory of its victim: init shares a worker's memory, not the shim's;
//! - namespaces, signal handlers and limits that a start changes end with the worker;
//! - a panic or a kill fails one call;
//! - a slow hook, a slow freezer, or a D-Bus call of up to 30 s delays no other call, although `container` and `launch`
//!   are written as blocking code.
//!
//! The price is one clone for each call, of a process with 0.1 MB of private memory. config.json is read in the worker,
//! and never enters the shim's memory.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use container::{CLAIMED, Store, Trace, Warn};
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sys::clone::Child;
use sys::wait::Deadline;

use crate::bootstrap::Daemon;
use crate::caller::Caller;
use crate::log::Log;
use crate::table::Place;

/// The maximum size of an answer in bytes.
const LONGEST: usize = 16 * 1024;

/// The job of a worker.
#[derive(Debug)]
pub(crate) struct Job {
    /// The equivalent dayfly command.
    pub command: &'static str,
    /// The caller to answer.
    pub caller: Option<Caller>,
    /// The action of the shim when the worker has exited.
    pub kind: Kind,
}

/// The action of the shim when a worker has exited: it sends the worker's answer, or handles the
/// result of an operation.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Sends the worker's answer to the caller.
    Answer,
    /// A container was created, or its creation failed. One that is admitted has only a mounted root filesystem: Start
    /// will restore it.
    Create { task: u32, is_admitted: bool },
    /// Init runs its program, or the start failed and init has exited.
    Start { process: u32 },
    /// Init and all other processes of the container were restored, or the restore failed.
    Restore { process: u32 },
    /// A program runs in the container, or failed to start.
    Exec { process: u32 },
    /// A container was deleted.
    Delete { task: u32 },
    /// A container was frozen, or thawed.
    Freeze { task: u32, on: bool },
    /// A container was saved in a directory.
    Checkpoint { task: u32, images: String },
    /// A container's remaining processes were killed.
    Clear { task: u32 },
    /// The rest of an incomplete container was removed, so the call that failed to create or restore the container can
    /// be answered now. `of` is the dayfly command that corresponds to this call.
    Sweep { task: u32, of: &'static str, caller: Option<Caller>, why: Status },
}

impl Job {
    /// Returns a job whose worker's answer is sent to the caller.
    pub fn answer(command: &'static str, caller: Caller) -> Self {
        Self { command, caller: Some(caller), kind: Kind::Answer }
    }
}

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub child: Child,
    pub job: Job,
    /// The shim's end of the socket over which the worker sends its answer.
    pub answer: OwnedFd,
    /// Whether its caller's deadline has passed.
    pub is_late: bool,
}

impl Worker {
    /// Returns the deadline of the worker's caller.
    pub fn deadline(&self) -> Option<Deadline> {
        self.job.caller?.deadline.filter(|_| !self.is_late)
    }

    /// Kills the worker if its caller's deadline has passed. One that only has to unmount a root filesystem goes on: the
    /// kernel may write data back meanwhile, and a later Delete finds the mount gone.
    pub fn end_if_late(&mut self) {
        if !self.is_late && self.job.caller.is_some_and(|caller| caller.is_late()) {
            self.is_late = true;
            if !self.unmounts() {
                let _ = sys::signal::send(self.child.pidfd.as_fd(), 9);
            }
        }
    }

    /// Returns whether the worker of a Delete has told that the container is removed: see [`Work::unmounts`].
    fn unmounts(&self) -> bool {
        let mut first = [0];
        let is_delete = matches!(self.job.kind, Kind::Delete { .. });
        is_delete && self.receive(&mut first, RecvFlags::PEEK) == 1 && first == [CLAIMED]
    }

    /// Returns the messages that the worker has sent; called after the worker has exited.
    pub fn report(&self) -> Report {
        let mut buffer = alloc::vec![0; LONGEST];
        let mut length = self.receive(&mut buffer, RecvFlags::empty());
        let mut has_claimed = false;
        // A creation that starts init a second time claims the id twice.
        while buffer.get(..length) == Some(&[CLAIMED]) {
            has_claimed = true;
            length = self.receive(&mut buffer, RecvFlags::empty());
        }
        let result = match buffer.get(..length).and_then(<[u8]>::split_first) {
            Some((0, answer)) => Ok(answer.to_vec()),
            Some((code, text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Err(Status::new(i32::from(*code), text))
            }
            None if self.is_late => Err(Status::deadline_exceeded("not done in time")),
            None => Err(Status::aborted("killed before its end")),
        };
        Report { has_claimed, result }
    }

    /// Receives the next packet. Returns the packet's length, or 0 if there is no packet.
    fn receive(&self, buffer: &mut [u8], flags: RecvFlags) -> usize {
        recv(&self.answer, buffer, RecvFlags::DONTWAIT | flags).map_or(0, |(length, _)| length)
    }
}

/// The messages that a worker has sent.
pub(crate) struct Report {
    /// Whether the worker has claimed the container's id, so that the id belongs to the container that the worker
    /// created or restored.
    pub has_claimed: bool,
    pub result: Result<Vec<u8>, Status>,
}

/// The resources of a worker.
pub(crate) struct Work<'a> {
    pub trace: &'static Trace,
    /// Writes to the shim's log.
    pub warn: Warn<'a>,
    console: Option<OwnedFd>,
    answer: OwnedFd,
}

impl Work<'_> {
    /// Opens the store that contains the container's state.
    pub fn store(&self, place: &Place) -> Result<Store, container::Error> {
        Store::open(&place.root, self.trace)
    }

    /// Returns the socket over which a new process sends its terminal's master; `None` if containerd has requested no
    /// terminal.
    pub fn console(&self) -> Option<BorrowedFd<'_>> {
        self.console.as_ref().map(AsFd::as_fd)
    }

    /// Returns the socket over which a creation reports that it has claimed the container's id.
    pub fn claim_socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.answer.as_fd())
    }

    /// Tells the shim that only the root filesystem is left to unmount.
    pub fn unmounts(&self) {
        let _ = send(&self.answer, &[CLAIMED], SendFlags::NOSIGNAL);
    }

    /// Returns the answer that reports the pid of a created process.
    pub fn made(&self, child: Child) -> Vec<u8> {
        child.pid.as_raw_pid().to_ne_bytes().to_vec()
    }
}

/// Returns the pid from an answer that [`Work::made`] returned.
pub(crate) fn made(answer: &[u8]) -> Option<u32> {
    Some(i32::from_ne_bytes(answer.try_into().ok()?).unsigned_abs()).filter(|pid| *pid != 0)
}

/// Runs in the worker: does the work, sends the answer, and returns the exit status.
pub(crate) fn run(
    command: &'static str,
    id: &str,
    daemon: &Daemon,
    // The listening socket stays open while any process works for the shim (see bootstrap/ask.rs).
    [answer, console, log, _listener]: [OwnedFd; 4],
    has_console: bool,
    work: impl FnOnce(&Work<'_>) -> Result<Vec<u8>, Failed>,
) -> i32 {
    // The trace is leaked, because an init that shares this memory may use it.
    let trace: &'static Trace = Box::leak(Box::new(Trace::of_copy(command, daemon.args)));
    let log = Log::new(Some(log), daemon.debug, &daemon.namespace, id);
    let console = has_console.then_some(console);
    let warn = |text: &str| log.warning(text);
    let warn = Warn { record: &warn, print: &warn };
    let work_with = Work { trace, warn, console, answer };
    let result = work(&work_with);
    if let Err(error) = trace.write(id) {
        log.warning(format_args!("{id}: {error}"));
    }
    let packet = match result {
        Ok(answer) => [&[0], answer.as_slice()].concat(),
        Err(Failed(code, text)) => {
            let text = text.get(..text.floor_char_boundary(LONGEST - 1)).unwrap_or_default();
            let code = u8::try_from(code).unwrap_or(u8::MAX).clamp(1, CLAIMED - 1);
            [&[code], text.as_bytes()].concat()
        }
    };
    i32::from(send(&work_with.answer, &packet, SendFlags::NOSIGNAL).is_err())
}

/// A failure, as a gRPC code and a message.
pub(crate) struct Failed(pub i32, pub String);

impl From<container::Error> for Failed {
    fn from(error: container::Error) -> Self {
        let code = match error {
            container::Error::NotFound(_) => code::NOT_FOUND,
            container::Error::Exists(_) => code::ALREADY_EXISTS,
            _ => code::UNKNOWN,
        };
        Self(code, error.to_string())
    }
}

impl From<sys::Error> for Failed {
    fn from(error: sys::Error) -> Self {
        Self(code::UNKNOWN, error.to_string())
    }
}
