//! ttrpc: concurrent calls over one socket, each on a stream of its own (github.com/containerd/ttrpc, PROTOCOL.md,
//! v1.2.10). Implements the part used by containerd and its shims: a request, a response, no data in between.
//!
//! Both sides are designed for a level-triggered event loop: `receive` makes one system call and `flush` as many as the
//! socket accepts, none of which waits. The amounts of received and unwritten data are bounded.

mod channel;
pub mod client;
pub mod frame;
pub mod request;
pub mod server;
pub mod status;

pub use channel::Closed;
pub use client::Client;
pub use server::{Call, Connection};
pub use status::Status;
