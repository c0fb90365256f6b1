//! A minimal D-Bus client, which implements only what is necessary to call a service.
//!
//! A client has one connection over an `AF_UNIX` socket, one thread, and one call at a time. It passes no descriptors
//! and exports no objects. Every wait has a timeout and every length has a limit. Input from the peer is not trusted:
//! it is either parsed into a [`Message`] or rejected.

mod address;
mod bus;
mod error;
#[cfg(any(test, feature = "fuzz"))]
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
