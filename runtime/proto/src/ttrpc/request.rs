//! The contents of frames: a request and its response.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ttrpc::status::Status;

message! {
    /// `ttrpc.Request`: a call.
    pub struct Request {
        /// The service, its full name.
        1 => service: String,
        /// Which of its calls.
        2 => method: String,
        /// What the call takes: a message, encoded.
        3 => payload: Vec<u8>,
        /// How long the caller will wait, in nanoseconds; 0 for ever, negative if it has waited too long already.
        4 => timeout_nano: i64,
        /// What else there is to say, such as containerd's namespace (`containerd-namespace-ttrpc`). A key may
        /// come twice.
        5 => metadata: Vec<KeyValue>,
    }

    /// `ttrpc.Response`: the answer.
    pub struct Response {
        /// How it went; none if well.
        1 => status: Option<Status>,
        /// What the call returns: a message, encoded.
        2 => payload: Vec<u8>,
    }

    /// `ttrpc.KeyValue`.
    pub struct KeyValue {
        /// What it is.
        1 => key: String,
        /// What it says.
        2 => value: String,
    }
}
