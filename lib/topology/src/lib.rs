//! The CPUs and memory nodes of a host, lists of them, and words for some of them.
//!
//! [`Topology`] is read from sysfs, of this host or of one below a directory. [`Pin`](pin::Pin) has the words of
//! `--pin`, such as `node:0`; [`List`] the form in which the kernel takes CPUs; [`States`] tells which CPUs are offline
//! or isolated.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod error;
mod list;
pub mod pin;
mod read;
mod states;
mod topology;

pub use error::Error;
pub use list::List;
pub use states::States;
pub use topology::{Ccx, Cpu, Node, Topology};
