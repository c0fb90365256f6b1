//! What containerd and its shims say to each other: ttrpc frames, and the protobuf messages in them; and what criu is
//! told and answers.
//!
//! Written by hand, for a program of one thread that must not block: a message is a plain struct (`message!` of
//! [`message`]), a connection is a state between two system calls that never wait. What comes from the other side
//! is believed in nothing: it is read, within limits, or refused.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[macro_use]
pub mod message;
pub mod messages;
pub mod ttrpc;
pub mod wire;
