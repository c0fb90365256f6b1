//! A D-Bus client: as much of the D-Bus specification as calling a service takes.
//!
//! One connection, one thread, one call at a time, over an `AF_UNIX` socket: no descriptors are passed, nothing
//! is offered to others. Every wait has an end, every length has a limit, and what the other side sends
//! is believed in nothing: it is parsed into a [`Message`] or refused.
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
