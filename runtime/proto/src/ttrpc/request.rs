//! The contents of request and response frames.

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
        /// The encoded message with the call's parameters.
        3 => payload: Vec<u8>,
        /// The timeout in nanoseconds. 0 means no timeout; a negative number means that it has already expired.
        4 => timeout_nano: i64,
        /// Metadata, for example containerd's namespace (`containerd-namespace-ttrpc`). A key may occur more than once.
        5 => metadata: Vec<KeyValue>,
    }

    /// `ttrpc.Response`: the answer to a call.
    pub struct Response {
        /// The error; absent on success.
        1 => status: Option<Status>,
        /// The encoded message with the call's result.
        2 => payload: Vec<u8>,
    }

    /// `ttrpc.KeyValue`: an entry of the metadata.
    pub struct KeyValue {
        /// The key.
        1 => key: String,
        /// The value.
        2 => value: String,
    }
}
