//! Workers: what may wait, or takes memory for good, is done by a child that is a copy of the shim.
//!
//! A worker calls the container crate as a command of dayfly does, answers in one packet, and ends. Its process ends with
//! the shim's. The processes it has made become the shim's children then, which is a subreaper.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use container::{Store, Trace};
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sys::clone::Child;
use sys::wait::Deadline;

use crate::bootstrap::Daemon;
use crate::log::Log;
use crate::table::Place;
use crate::task::Caller;

/// Bytes of the longest answer.
const LONGEST: usize = 16 * 1024;

/// What a worker was begun for.
#[derive(Debug)]
pub(crate) struct Job {
    /// The command of dayfly that it comes to.
    pub command: &'static str,
    /// Who is to be answered.
    pub caller: Option<Caller>,
    /// What its end means.
    pub kind: Kind,
}

/// What the end of a worker means.
#[derive(Debug)]
pub(crate) enum Kind {
    /// What it says is the answer.
    Answer,
    /// A container is there, or is not.
    Create { task: u32 },
    /// Init runs its program, or has ended.
    Start { process: u32 },
    /// A program runs in a container, or does not.
    Exec { process: u32 },
    /// A container is gone.
    Delete { task: u32 },
    /// A container is frozen, or thawed.
    Freeze { task: u32, on: bool },
    /// What was left of a container's processes was killed.
    Clear { task: u32 },
    /// What was left of the making of a container is gone; that it failed is answered now.
    Sweep { task: u32, caller: Option<Caller>, why: Status },
}

impl Job {
    /// A job whose worker says what is answered.
    pub fn answer(command: &'static str, caller: Caller) -> Self {
        Self { command, caller: Some(caller), kind: Kind::Answer }
    }
}

/// A worker under way.
#[derive(Debug)]
pub(crate) struct Worker {
    pub child: Child,
    pub job: Job,
    /// Our end of the socket that it answers by.
    pub answer: OwnedFd,
    /// Whether its caller's time was over, and it was killed.
    pub is_late: bool,
}

impl Worker {
    /// Until when its caller waits for it.
    pub fn deadline(&self) -> Option<Deadline> {
        self.job.caller?.deadline.filter(|_| !self.is_late)
    }

    /// Kills it if its caller waits no more.
    pub fn end_if_late(&mut self) {
        if !self.is_late && self.job.caller.is_some_and(|caller| caller.is_late()) {
            self.is_late = true;
            let _ = sys::signal::send(self.child.pidfd.as_fd(), 9);
        }
    }

    /// What it has said, after its end.
    pub fn result(&self) -> Result<Vec<u8>, Status> {
        let mut packet = alloc::vec![0; LONGEST];
        let got = recv(&self.answer, packet.as_mut_slice(), RecvFlags::DONTWAIT);
        let packet = packet.get(..got.map_or(0, |(length, _)| length)).unwrap_or_default();
        match packet.split_first() {
            Some((0, answer)) => Ok(answer.to_vec()),
            Some((code, text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Err(Status::new(i32::from(*code), text))
            }
            None if self.is_late => Err(Status::deadline_exceeded("not done in time")),
            None => Err(Status::aborted("killed before its end")),
        }
    }
}

/// What a worker works with.
pub(crate) struct Work {
    trace: &'static Trace,
    log: Log,
    console: OwnedFd,
}

impl Work {
    /// The state of containers.
    pub fn store(&self, place: &Place) -> Result<Store, container::Error> {
        Store::open(&place.root, self.trace)
    }

    /// Where warnings go.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Who receives a terminal.
    pub fn console(&self) -> Option<BorrowedFd<'_>> {
        Some(self.console.as_fd())
    }

    /// The answer that tells of a process.
    pub fn made(&self, child: Child) -> Vec<u8> {
        child.pid.as_raw_pid().to_ne_bytes().to_vec()
    }
}

/// The process that an answer of [`Work::made`] tells of.
pub(crate) fn made(answer: &[u8]) -> Option<u32> {
    Some(i32::from_ne_bytes(answer.try_into().ok()?).unsigned_abs()).filter(|pid| *pid != 0)
}

/// Runs in the worker: does the work, and answers. Returns the exit status.
pub(crate) fn run(
    command: &'static str,
    id: &str,
    daemon: &Daemon,
    // The socket stays open as long as anybody works for the shim (bootstrap/ask.rs).
    [answer, console, log, _listener]: [OwnedFd; 4],
    work: impl FnOnce(&Work) -> Result<Vec<u8>, Failed>,
) -> i32 {
    // For as long as the process, as an init in its memory may be.
    let trace: &'static Trace = Box::leak(Box::new(Trace::new(command, daemon.args, 0, None)));
    let log = Log::new(Some(log), daemon.debug, &daemon.namespace, id);
    let work_with = Work { trace, log, console };
    let result = work(&work_with);
    if let Err(error) = trace.write(id) {
        work_with.log.warning(format_args!("{id}: {error}"));
    }
    let packet = match result {
        Ok(answer) => [&[0], answer.as_slice()].concat(),
        Err(Failed(code, text)) => {
            let text = text.get(..text.floor_char_boundary(LONGEST - 1)).unwrap_or_default();
            [&[code.clamp(1, 255) as u8], text.as_bytes()].concat()
        }
    };
    i32::from(send(&answer, &packet, SendFlags::NOSIGNAL).is_err())
}

/// Why work failed: what kind of failure it is for containerd, and in which words.
pub(crate) struct Failed(pub i32, pub String);

impl From<container::Error> for Failed {
    fn from(error: container::Error) -> Self {
        let code = match error {
            container::Error::NotFound(_) => code::NOT_FOUND,
            container::Error::Exists => code::ALREADY_EXISTS,
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
