//! dayfly's command line: what it offers, how it is read, and what its commands print.
//!
//! The program itself is [`run`] on the arguments the kernel laid on the stack; `docgen` makes man
//! pages and completions from [`definition`].
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod definition;
pub mod duration;
pub mod failure;
pub mod format;
pub mod help;
pub mod logging;
pub mod number;
pub mod parser;
pub mod signal;
pub mod size;
pub mod values;

mod commands;
mod dispatch;
mod invocation;
mod reaper;
mod state_root;

pub use dispatch::run;

#[cfg(test)]
mod parser_tests;
