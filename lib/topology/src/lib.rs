//! The CPUs and memory nodes of a host, lists of them, and a language to select them; and the limit on concurrent
//! starts.
//!
//! [`Topology`] is read from sysfs of this host, or from a copy below a directory. [`Pin`](pin::Pin) parses the words
//! of `--pin`, such as `node:0`; [`List`] is the kernel's format of CPU lists; [`States`] lists offline and isolated
//! CPUs. The limit ([`limit`]) is in the kernel's semaphores.
//!
//! A start without `--pin` and `--start-cpus` reads none of these files.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod error;
pub mod limit;
mod list;
pub mod pin;
mod read;
mod states;
mod topology;

pub use error::Error;
pub use list::List;
pub use states::States;
pub use topology::{Ccx, Cpu, Node, Topology};
