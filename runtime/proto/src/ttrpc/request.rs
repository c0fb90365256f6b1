//! The contents of frames: requests and responses.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ttrpc::status::Status;

message! {
    /// `ttrpc.Request`: a call.
    pub struct Request {
        /// The full name of the service.
        1 => service: String,
        /// The name of the call.
        2 => method: String,
        /// The encoded parameter message.
        3 => payload: Vec<u8>,
        /// The timeout in nanoseconds; 0 for none, negative if it has already expired.
        4 => timeout_nano: i64,
        /// Metadata, such as containerd's namespace (`containerd-namespace-ttrpc`). A key may be repeated.
        5 => metadata: Vec<KeyValue>,
    }

    /// `ttrpc.Response`: the answer.
    pub struct Response {
        /// The error; absent on success.
        1 => status: Option<Status>,
        /// The encoded result message.
        2 => payload: Vec<u8>,
    }

    /// `ttrpc.KeyValue`.
    pub struct KeyValue {
        /// The key.
        1 => key: String,
        /// The value.
        2 => value: String,
    }
}
