//! Time lines as OpenTelemetry spans, posted to a collector by OTLP over HTTP with JSON.
//!
//! Not in the program unless it is built with the feature `otlp`. Without libc there is no resolver:
//! the collector is named by its address, or is on this host.
//!
//! Sources: W3C Trace Context §3.2 (TRACEPARENT), OTLP 1.5 ("OTLP/HTTP", "JSON Protobuf Encoding"), the
//! OpenTelemetry environment variable specification.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod body;
mod endpoint;
mod http;
mod parent;

pub use endpoint::{ENDPOINT, Endpoint, TRACES_ENDPOINT};
pub use parent::{Parent, VARIABLE};

use core::fmt;

use trace::Timeline;

/// Why nothing was exported.
#[derive(Debug)]
pub enum Error {
    /// The endpoint is none that can be reached from here.
    Endpoint(&'static str),
    /// A system call.
    System(sys::Error),
    /// The collector's answer: the first line.
    Refused(alloc::string::String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(why) => write!(f, "{TRACES_ENDPOINT} or {ENDPOINT}: {why}"),
            Self::System(error) => error.fmt(f),
            Self::Refused(line) => write!(f, "the collector answers {line:?}"),
        }
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}

/// Posts a time line as spans below `parent`: one for the command, one for each process, one for each step.
///
/// # Errors
/// If the collector can't be reached within a second, or refuses.
pub fn export(timeline: &Timeline, parent: &Parent, endpoint: &Endpoint) -> Result<(), Error> {
    let body = body::of(timeline, parent, body::wall_clock_offset(), &mut body::random_id);
    http::post(endpoint, &body)
}
