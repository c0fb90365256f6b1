//! The protocol between containerd and its shims: ttrpc frames, and the protobuf messages in them. Also criu's requests
//! and responses.
//!
//! The code is written by hand for a single-threaded program that must not block: a message is a plain struct
//! (`message!` of [`message`]), and a connection keeps its state between system calls that never block. Input from the
//! peer is untrusted: it is parsed within limits, or refused.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[macro_use]
pub mod message;
pub mod messages;
pub mod ttrpc;
pub mod wire;
