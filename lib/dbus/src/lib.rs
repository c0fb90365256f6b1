//! A minimal D-Bus client: the part of the D-Bus specification that calling a service needs.
//!
//! It has one connection, one thread and one call at a time over an `AF_UNIX` socket; it passes no descriptors and
//! exports no objects. Every wait has a timeout and every length a limit. Input from the peer is untrusted: it is
//! parsed into a [`Message`] or rejected.
#![cfg_attr(not(any(test, feature = "fake")), no_std)]

extern crate alloc;

mod address;
mod bus;
mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod message;
mod text;
mod value;
mod wire;

pub use address::{Address, address_of};
pub use bus::Bus;
pub use error::Error;
pub use message::{Call, Message};
pub use value::Value;
pub use wire::Reader;
