//! What a host keeps between container starts, so that a start only opens it.
//!
//! One directory for the host, root's alone (`/run/dayfly-cache` by default):
//!
//! ```text
//! seccomp/HASH            a compiled filter, with the profile it was compiled from
//! mounts/                 a private tmpfs of our own, mounted when first needed
//! mounts/template         the template mount namespace
//! mounts/programs/NAME    the runtime on a read-only mount
//! mounts/bpf/device/HASH  a loaded device program, pinned
//! ```
//!
//! Nothing in here is ever needed: whatever is missing, foreign or damaged is made again, and whoever
//! cannot have the cache starts without it. An [`Error`] tells why, for a log; it is no reason to fail
//! a start.
//!
//! What is trusted: a directory that belongs to root with mode 0700, and therefore root. Checksums are
//! for accidents, such as a full file system or a killed writer, not for attackers.
//!
//! Who sees what: filters, every process that sees the directory. The template, the mount namespace it
//! was made in; any other makes its own. Pins and programs, that one and those made from it later.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod clear;
mod device;
mod directory;
mod entries;
mod error;
mod filter;
mod hash;
mod mounts;
mod program;
mod template;

pub use directory::{Cache, DEFAULT_PATH};
pub use entries::{Bound, trim};
pub use error::Error;
pub use filter::FilterKey;
pub use hash::hash;
pub use program::kept_program;
