//! How a call went. containerd turns codes back into its own errors (errdefs): which one it is decides what it
//! does next, so that a wrong code is a wrong answer.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::messages::any::Any;

/// The codes, as gRPC has them (google.golang.org/grpc/codes).
pub mod code {
    /// All is well.
    pub const OK: i32 = 0;
    /// The caller has given up.
    pub const CANCELLED: i32 = 1;
    /// An error that has no better code.
    pub const UNKNOWN: i32 = 2;
    /// What was asked for makes no sense.
    pub const INVALID_ARGUMENT: i32 = 3;
    /// It took too long.
    pub const DEADLINE_EXCEEDED: i32 = 4;
    /// There is no such thing.
    pub const NOT_FOUND: i32 = 5;
    /// There is such a thing already.
    pub const ALREADY_EXISTS: i32 = 6;
    /// The caller may not.
    pub const PERMISSION_DENIED: i32 = 7;
    /// Something is used up.
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    /// Not in the state that it is in.
    pub const FAILED_PRECONDITION: i32 = 9;
    /// Somebody else was quicker.
    pub const ABORTED: i32 = 10;
    /// Beyond the end.
    pub const OUT_OF_RANGE: i32 = 11;
    /// There is no such call, or not yet.
    pub const UNIMPLEMENTED: i32 = 12;
    /// A bug.
    pub const INTERNAL: i32 = 13;
    /// Not now.
    pub const UNAVAILABLE: i32 = 14;
    /// Data are lost.
    pub const DATA_LOSS: i32 = 15;
    /// Who is calling?
    pub const UNAUTHENTICATED: i32 = 16;
}

message! {
    /// `google.rpc.Status`.
    pub struct Status = "google.rpc.Status" {
        /// One of [`code`].
        1 => code: i32,
        /// What happened, in words.
        2 => message: String,
        /// More about it.
        3 => details: Vec<Any>,
    }
}

impl Status {
    /// Of any code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// An error that has no better code.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(code::UNKNOWN, message)
    }

    /// What was asked for makes no sense (`ErrInvalidArgument`).
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENT, message)
    }

    /// It took too long.
    pub fn deadline_exceeded(message: impl Into<String>) -> Self {
        Self::new(code::DEADLINE_EXCEEDED, message)
    }

    /// There is no such thing (`ErrNotFound`).
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// There is such a thing already (`ErrAlreadyExists`).
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::new(code::ALREADY_EXISTS, message)
    }

    /// Something is used up.
    pub fn resource_exhausted(message: impl Into<String>) -> Self {
        Self::new(code::RESOURCE_EXHAUSTED, message)
    }

    /// Not in the state that it is in (`ErrFailedPrecondition`).
    pub fn failed_precondition(message: impl Into<String>) -> Self {
        Self::new(code::FAILED_PRECONDITION, message)
    }

    /// There is no such call (`ErrNotImplemented`).
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(code::UNIMPLEMENTED, message)
    }

    /// It was begun, and not brought to its end.
    pub fn aborted(message: impl Into<String>) -> Self {
        Self::new(code::ABORTED, message)
    }

    /// A bug, or an answer that is none.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// Not now (`ErrUnavailable`).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(code::UNAVAILABLE, message)
    }
}

/// The name of a code, as gRPC writes it.
fn name(code: i32) -> &'static str {
    match code {
        code::OK => "OK",
        code::CANCELLED => "Canceled",
        code::INVALID_ARGUMENT => "InvalidArgument",
        code::DEADLINE_EXCEEDED => "DeadlineExceeded",
        code::NOT_FOUND => "NotFound",
        code::ALREADY_EXISTS => "AlreadyExists",
        code::PERMISSION_DENIED => "PermissionDenied",
        code::RESOURCE_EXHAUSTED => "ResourceExhausted",
        code::FAILED_PRECONDITION => "FailedPrecondition",
        code::ABORTED => "Aborted",
        code::OUT_OF_RANGE => "OutOfRange",
        code::UNIMPLEMENTED => "Unimplemented",
        code::INTERNAL => "Internal",
        code::UNAVAILABLE => "Unavailable",
        code::DATA_LOSS => "DataLoss",
        code::UNAUTHENTICATED => "Unauthenticated",
        _ => "Unknown",
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", name(self.code), self.message)
    }
}

impl core::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        assert_eq!(Status::not_found("container x").to_string(), "NotFound: container x");
        assert_eq!(Status::new(99, "").to_string(), "Unknown: ");
    }
}
