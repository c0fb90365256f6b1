//! The status of a call. containerd converts the code to one of its own errors (errdefs), and this error determines
//! what containerd does next. So the right code is as important as the right message.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::messages::any::Any;

/// Defines the codes of gRPC (google.golang.org/grpc/codes): number, constant, function for a status of this code, and
/// Go's name.
macro_rules! codes {
    ($($(#[$about:meta])* $number:literal $constant:ident $make:ident $name:literal;)*) => {
        /// The codes of gRPC.
        pub mod code {
            $($(#[$about])* pub const $constant: i32 = $number;)*
        }

        impl Status {
            $($(#[$about])* pub fn $make(message: impl Into<String>) -> Self {
                Self::new($number, message)
            })*
        }

        fn name(code: i32) -> &'static str {
            match code {
                $($number => $name,)*
                _ => "Unknown",
            }
        }
    };
}

codes! {
    /// Success.
    0 OK ok "OK";
    /// The caller has cancelled the call.
    1 CANCELLED cancelled "Canceled";
    /// An error for which no other code fits.
    2 UNKNOWN unknown "Unknown";
    /// An argument is invalid.
    3 INVALID_ARGUMENT invalid_argument "InvalidArgument";
    /// The deadline has passed.
    4 DEADLINE_EXCEEDED deadline_exceeded "DeadlineExceeded";
    /// The object does not exist.
    5 NOT_FOUND not_found "NotFound";
    /// The object already exists.
    6 ALREADY_EXISTS already_exists "AlreadyExists";
    /// The caller lacks permission.
    7 PERMISSION_DENIED permission_denied "PermissionDenied";
    /// A resource is exhausted.
    8 RESOURCE_EXHAUSTED resource_exhausted "ResourceExhausted";
    /// The object's state does not permit the call.
    9 FAILED_PRECONDITION failed_precondition "FailedPrecondition";
    /// The call was not completed, for example because of a conflict.
    10 ABORTED aborted "Aborted";
    /// A value is beyond the valid range.
    11 OUT_OF_RANGE out_of_range "OutOfRange";
    /// The call is not implemented.
    12 UNIMPLEMENTED unimplemented "Unimplemented";
    /// The server has a bug.
    13 INTERNAL internal "Internal";
    /// The service is temporarily unavailable.
    14 UNAVAILABLE unavailable "Unavailable";
    /// Data is lost.
    15 DATA_LOSS data_loss "DataLoss";
    /// The caller is not authenticated.
    16 UNAUTHENTICATED unauthenticated "Unauthenticated";
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
