//! A D-Bus client: as much of the D-Bus specification as talking to systemd takes.
//!
//! One connection, one thread, one call at a time, over an `AF_UNIX` socket: no descriptors are passed, nothing
//! is offered to others. Every wait has an end, every length has a limit, and what the other side sends
//! is believed in nothing: it is parsed into a `Message` or refused.

mod bus;
#[cfg(test)]
pub(crate) mod fake;
mod fault;
mod message;
mod text;
mod value;
mod wire;

#[cfg(feature = "fuzz")]
pub(crate) use bus::check_address;
pub(crate) use bus::{Bus, address_of};
pub use fault::Fault;
pub(crate) use message::{Call, Message};
pub use value::Value;
