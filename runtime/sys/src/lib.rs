//! System calls that rustix lacks, with typed arguments. Each file covers one subject.
//!
//! Of the product, only this crate, `init` and `shim` contain `unsafe`. Calls that rustix provides are made through rustix.
//!
//! Code that needs a heap is behind the feature `alloc`, which all crates but `init` enable.
#![cfg_attr(not(test), no_std)]
#![allow(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc as alloc_crate;

pub mod alloc;
pub mod bpf_pin;
pub mod clone;
pub mod defence;
mod entry;
pub mod errand;
pub mod errno;
pub mod exec;
pub mod exit_info;
pub mod fanotify;
pub mod fdpass;
pub mod fs;
pub mod inside;
pub mod keyring;
pub mod mem;
#[cfg_attr(
    not(feature = "alloc"),
    expect(dead_code, reason = "only user_namespace.rs, which needs a heap, creates it")
)]
mod member;
pub mod mempolicy;
pub mod mount;
pub mod net;
pub mod ns;
pub mod nsfs;
pub mod personality;
pub mod probe;
pub mod ptrace;
pub mod raw;
pub mod recorder;
pub mod refusal;
pub mod rusage;
pub mod sched;
pub mod seccomp;
pub mod semaphore;
pub mod sender;
pub mod sha256;
pub mod shared;
pub mod signal;
pub mod stack;
pub mod start;
pub mod stdio;
pub mod unotify;
pub mod userfault;
pub mod worker;

#[cfg(feature = "alloc")]
pub mod bpf;
#[cfg(feature = "alloc")]
pub mod bpf_info;
#[cfg(feature = "alloc")]
mod error;
#[cfg(feature = "alloc")]
pub mod identity;
#[cfg(feature = "alloc")]
pub mod pidfd;
#[cfg(feature = "alloc")]
pub mod reexec;
#[cfg(feature = "alloc")]
pub mod rtnetlink;
#[cfg(feature = "alloc")]
pub mod spawn;
#[cfg(feature = "alloc")]
pub mod taskstats;
#[cfg(feature = "alloc")]
pub mod user_namespace;
#[cfg(feature = "alloc")]
pub mod wait;

#[cfg(feature = "alloc")]
pub use error::{Context, Error};
pub use rustix::io::Errno;
pub use start::Args;
