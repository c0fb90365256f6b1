//! ttrpc: calls over a socket, many at once, each on a stream of its own (github.com/containerd/ttrpc,
//! PROTOCOL.md, v1.2.10). As much of it as containerd and its shims use: a request, a response, no data in
//! between.
//!
//! Both sides are made for a loop that waits for readiness, level-triggered: `receive` makes one system call and
//! `flush` as many as the socket takes, none of which waits. What is read, and what waits to be written, is
//! bounded.

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
