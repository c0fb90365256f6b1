//! The status of a call. containerd converts the code to one of its own errors (errdefs), and this error determines
//! what containerd does next. So the right code is as important as the right message.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::messages::any::Any;

/// The codes of gRPC (google.golang.org/grpc/codes).
pub mod code {
    /// Success.
    pub const OK: i32 = 0;
    /// The caller has cancelled the call.
    pub const CANCELLED: i32 = 1;
    /// An error for which no other code fits.
    pub const UNKNOWN: i32 = 2;
    /// An argument is invalid.
    pub const INVALID_ARGUMENT: i32 = 3;
    /// The deadline has passed.
    pub const DEADLINE_EXCEEDED: i32 = 4;
    /// The object does not exist.
    pub const NOT_FOUND: i32 = 5;
    /// The object already exists.
    pub const ALREADY_EXISTS: i32 = 6;
    /// The caller lacks permission.
    pub const PERMISSION_DENIED: i32 = 7;
    /// A resource is exhausted.
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    /// The object's state does not permit the call.
    pub const FAILED_PRECONDITION: i32 = 9;
    /// The call was not completed, for example because of a conflict.
    pub const ABORTED: i32 = 10;
    /// A value is beyond the valid range.
    pub const OUT_OF_RANGE: i32 = 11;
    /// The call is not implemented.
    pub const UNIMPLEMENTED: i32 = 12;
    /// The server has a bug.
    pub const INTERNAL: i32 = 13;
    /// The service is temporarily unavailable.
    pub const UNAVAILABLE: i32 = 14;
    /// Data is lost.
    pub const DATA_LOSS: i32 = 15;
    /// The caller is not authenticated.
    pub const UNAUTHENTICATED: i32 = 16;
}

message! {
    /// `google.rpc.Status`.
    pub struct Status = "google.rpc.Status" {
        /// One of [`code`].
        1 => code: i32,
        /// The message.
        2 => message: String,
        /// Details, each with its type.
        3 => details: Vec<Any>,
    }
}

impl Status {
    /// Returns a status with the given code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// Returns an error for which no other code fits.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(code::UNKNOWN, message)
    }

    /// Returns an error for an invalid argument (`ErrInvalidArgument`).
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENT, message)
    }

    /// Returns the error for a call whose deadline has passed.
    pub fn deadline_exceeded(message: impl Into<String>) -> Self {
        Self::new(code::DEADLINE_EXCEEDED, message)
    }

    /// Returns an error for a missing object (`ErrNotFound`).
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// Returns an error for an object that already exists (`ErrAlreadyExists`).
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::new(code::ALREADY_EXISTS, message)
    }

    /// Returns an error for a resource that is used up.
    pub fn resource_exhausted(message: impl Into<String>) -> Self {
        Self::new(code::RESOURCE_EXHAUSTED, message)
    }

    /// Returns an error for an object in the wrong state (`ErrFailedPrecondition`).
    pub fn failed_precondition(message: impl Into<String>) -> Self {
        Self::new(code::FAILED_PRECONDITION, message)
    }

    /// Returns an error for a call that is not implemented (`ErrNotImplemented`).
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(code::UNIMPLEMENTED, message)
    }

    /// Returns an error for an operation that was started, but not completed.
    pub fn aborted(message: impl Into<String>) -> Self {
        Self::new(code::ABORTED, message)
    }

    /// Returns an error for a bug, or an invalid answer.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// Returns an error for a service that is temporarily unavailable (`ErrUnavailable`).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(code::UNAVAILABLE, message)
    }
}

/// Returns gRPC's name for a code.
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
