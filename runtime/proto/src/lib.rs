//! The protocols that dayfly uses: ttrpc between containerd and its shims, and criu's RPC protocol. The messages of
//! both protocols are in protobuf's format.
//!
//! The code is written by hand for a single-threaded program that must not block. A message is a plain struct
//! (`message!` in [`message`]). A connection makes only system calls that never block, and keeps its state between
//! these calls. Input from the peer is not trusted: it is parsed within limits, or refused.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[macro_use]
pub mod message;
pub mod messages;
pub mod ttrpc;
pub mod wire;
