//! What rustix lacks: system calls with typed arguments, one subject a file.
//!
//! All `unsafe` of the project lives here and in `launch`. Where rustix has a call, it is used.
#![cfg_attr(not(test), no_std)]

extern crate alloc as alloc_crate;

pub mod alloc;
pub mod bpf;
pub mod bpf_info;
pub mod bpf_pin;
pub mod clone;
pub mod errand;
pub mod errno;
mod error;
pub mod exec;
pub mod fdpass;
pub mod fs;
pub mod image;
pub mod keyring;
pub mod mem;
pub mod mempolicy;
pub mod mount;
pub mod mount_events;
pub mod net;
pub mod ns;
pub mod nsfs;
pub mod personality;
pub mod ptrace;
pub mod raw;
pub mod rtnetlink;
pub mod rusage;
pub mod sched;
pub mod seccomp;
pub mod shared;
pub mod signal;
pub mod stack;
pub mod start;
pub mod stdio;
pub mod taskstats;
pub mod unotify;

pub use error::{Context, Error};
pub use rustix::io::Errno;
pub use start::Args;
