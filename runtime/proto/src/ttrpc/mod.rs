//! ttrpc: concurrent calls over one socket, each on its own stream (github.com/containerd/ttrpc, PROTOCOL.md, v1.2.10).
//! Only the part that containerd and its shims use is implemented: a request and a response, without data frames in
//! between.
//!
//! Both sides are designed for a level-triggered event loop. `receive` makes one system call. `flush` writes until the
//! socket accepts no more bytes. Neither of them waits. The amounts of received and of unwritten data are limited.

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
