//! Follows a command and all its descendants by ptrace(2), through clones and new namespaces, and reports each system
//! call, or the number of instructions.
//!
//! | part | what |
//! |---|---|
//! | [`Command`] | the command, its environment and its streams |
//! | [`follow()`] | runs the command, and passes each [`Event`] to a [`Listener`] |
//! | [`count()`] | runs the command, and returns a [`Report`] with the counts of each process, in order of creation |
//! | [`memory`] | reads what a call's arguments point to, while its caller is stopped |
//!
//! A container's own program is not followed, unless a listener requests it: a process is detached when it executes a
//! program with a root directory other than ours. So the counts cover the runtime with its helpers and hooks.
//!
//! Neither mode needs performance counters, which virtual machines often lack. Both modes give reproducible results for
//! a deterministic program. The cost is two stops per system call, or one stop per instruction; a million instructions
//! take some seconds.
//!
//! Requires Linux 5.3 or later, on x86-64 or arm64. Nothing is left behind: at the deadline, or if the caller dies, all
//! followed processes are killed.

mod command;
mod count;
mod error;
mod event;
pub mod memory;
mod run;
mod tracee;
mod watch;

pub use command::Command;
pub use count::{Image, Process, Report, Tally, count};
pub use error::Error;
pub use event::{End, Event, Listener, call_name};
pub use run::{Mode, follow, follow_until};
pub use watch::Stop;
