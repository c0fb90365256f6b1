//! What runs between clone and exec: init, and those that help it into the world, some of them in memory that is
//! somebody else's as well.
//!
//! | | |
//! |---|---|
//! | [`step`] | what init is told to do |
//! | [`Job`], [`begin`] | how it comes into the world, by itself or by an intermediate |
//! | [`channel`] | what passes between it and the parent |
//! | [`take`], [`filesystem`], [`hooks`] | what the parent does as well |
//! | [`network`], [`holder`] | processes that end before it |
//!
//! Where init shares the parent's memory, one allocation would break the heap of both. So this crate has no
//! heap of its own, and calls nothing that has one: `cargo check -p dayfly-init` builds it with a `sys` and a rustix
//! that have no heap.
#![cfg_attr(not(test), no_std)]
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
mod slots;
pub mod step;
pub mod take;

pub use actor::devices::make_node;
pub use clone::begin;
pub use failure::Failure;
pub use job::{Filter, Job};
pub use slots::{Place, Slots};
