//! dayfly's command line: its definition, its parser, and the output of its commands.
//!
//! The program is [`run`], called with the arguments from the initial stack; `docgen` generates man pages and
//! completions from [`definition`].
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod definition;
pub mod duration;
pub mod failure;
pub mod format;
pub mod help;
pub mod logging;
pub mod number;
pub mod option;
pub mod parser;
pub mod signal;
pub mod size;
pub mod usage;
pub mod values;

mod advice;
mod commands;
mod dispatch;
mod execute;
mod image_form;
mod invocation;
mod reaper;
mod state_root;

pub use dispatch::run;

/// The program's name.
pub const NAME: &str = "dayfly";

#[cfg(test)]
mod parser_tests;
