//! Callers of the task service, and the answers to them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

use proto::ttrpc::Status;
use sys::wait::Deadline;

/// The caller to answer: identifies a request on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The connection's key.
    pub connection: u32,
    /// The ttrpc stream of the request.
    pub stream: u32,
    /// The deadline of the answer, if any.
    pub deadline: Option<Deadline>,
}

impl Caller {
    /// Returns whether the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline.left().is_none())
    }
}

/// The result of a call.
pub(crate) enum Outcome {
    /// The encoded answer.
    Answer(Vec<u8>),
    /// The answer follows later. The call is stored in a table.
    Later,
}

/// The return type of every call.
pub(crate) type Answered = Result<Outcome, Status>;

/// Returns a failure's status, with the message that containerd's own shim would give.
pub(crate) fn failed(command: &str, error: impl Display) -> Status {
    Status::unknown(words(command, &error.to_string()))
}

fn words(command: &str, error: &str) -> String {
    match command {
        // The error messages of runc's commands `create` and `exec` have a second prefix.
        "create" => format!("OCI runtime create failed: dayfly create failed: {error}"),
        "exec" => format!("OCI runtime exec failed: exec failed: {error}"),
        _ => format!("OCI runtime {command} failed: {error}"),
    }
}

/// Returns a failed call's status, with the message prefix of the dayfly command `command`.
pub(crate) fn failed_as(command: &str, status: Status) -> Status {
    Status { message: words(command, &status.message), ..status }
}
