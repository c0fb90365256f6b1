//! The code that runs between clone and exec: init and its helper processes, some of which share memory with another
//! process.
//!
//! | | |
//! |---|---|
//! | [`step`] | init's steps |
//! | [`Job`], [`begin`] | creation of init, directly or by an intermediate |
//! | [`channel`] | messages between init and the parent |
//! | [`take`], [`filesystem`], [`hooks`] | code that the parent uses as well |
//! | [`network`], [`holder`] | helper processes that exit before init's exec |
//!
//! If init shares the parent's memory, an allocation would corrupt the heap of both. So this crate has no heap and
//! calls no code that uses one. `cargo check -p dayfly-init` verifies this: it builds the crate with `sys` and rustix,
//! both without the feature `alloc`.
#![cfg_attr(not(test), no_std)]
#![allow(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its text, since init does not allocate; there is one at most"
)]

mod actor;
pub mod channel;
pub mod clock;
mod clone;
mod failure;
pub mod fault;
pub mod filesystem;
pub mod holder;
pub mod hooks;
pub mod intermediate;
mod job;
pub mod network;
mod signal_words;
mod slots;
pub mod step;
pub mod take;

pub use actor::devices::make_node;
pub use actor::program::NO_INTERPRETER;
pub use clone::begin;
pub use failure::Failure;
pub use job::{Filter, Job};
pub use signal_words::SignalWords;
pub use slots::{OwnedSlots, Place, Slots};
