//! Compiles OCI seccomp profiles to decision trees in classic BPF.
//!
//! The crate is optimized for fast container starts. No table is built at run time: names are found through a hash, in
//! one constant table for all architectures (`names.rs`). The filter is small, and its tree is not deep, because the
//! kernel emulates a filter for every system call number when the filter is loaded. The verdicts equal those of
//! libseccomp; tests/differential/ compares them for every number of every architecture.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod arch;
mod compile;
mod names;
mod profile;
mod program;

use alloc::string::String;
use core::fmt;

pub use arch::{Arch, multiplexed_on_x86};
pub use compile::{Support, compile};
pub use names::{names, number};
pub use profile::{ACTIONS, Argument, FLAGS, OPERATORS, Operator, Profile, Rule};
pub use program::{Insn, Program};

/// The reason why a profile is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Error {}
