//! Follows a command with all its descendants by ptrace(2), through clones and new namespaces, and
//! tells what they do: each system call, or how many instructions they run.
//!
//! | part | what |
//! |---|---|
//! | [`Command`] | what is run, and with what around it |
//! | [`follow()`] | runs it, and tells a [`Listener`] each [`Event`] |
//! | [`count()`] | runs it, and adds up: a [`Report`] of processes in the order of their birth |
//! | [`memory`] | what the arguments of a call point to, while its caller is stopped |
//!
//! A container's own program is not followed, unless a listener wants it: a process is let go when it executes a
//! program with another root directory than ours. So what is counted is the runtime, with its helpers and hooks.
//!
//! Neither needs a performance counter, which virtual machines often lack, and both give the same
//! numbers again for a program that does the same again. What it costs: two stops a system call, or one
//! stop an instruction, which makes a million instructions take some seconds.
//!
//! Linux 5.3 or later; x86-64 and arm64. Nothing is left behind: at the deadline, and when the caller
//! dies, everything that was followed is killed.

mod command;
mod count;
mod error;
mod event;
mod follow;
pub mod memory;
mod report;
mod tracee;
mod watch;

pub use command::Command;
pub use count::count;
pub use error::Error;
pub use event::{End, Event, Listener, call_name};
pub use follow::{Mode, follow, follow_until};
pub use report::{Image, Process, Report, Tally};
pub use watch::Stop;
