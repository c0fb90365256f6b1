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
pub mod memory;
mod run;
mod tracee;
mod watch;

pub use command::Command;
pub use count::{Image, Process, Report, count};
pub use run::{Mode, follow, follow_until};
pub use watch::Stop;

use rustix::io::Errno;
use rustix::process::Pid;
use std::path::PathBuf;
use std::time::Duration;

/// The reason why a command could not be followed to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A string for the command contains a NUL byte.
    #[error("argument or variable: {0}")]
    Nul(#[from] std::ffi::NulError),
    /// The program could not be executed.
    #[error("execute {}: {}", program.display(), sys::errno::describe(*errno))]
    NotExecuted {
        /// The program.
        program: PathBuf,
        /// The errno.
        errno: Errno,
    },
    /// The command, or a process that the command left running, did not end before the deadline and
    /// was killed.
    #[error("{} did not end within {after:?} and was killed", program.display())]
    Deadline {
        /// The program.
        program: PathBuf,
        /// The timeout.
        after: Duration,
    },
    /// A system call failed.
    #[error("{0}")]
    System(#[from] sys::Error),
}

/// Receives the events of followed processes.
pub trait Listener: Send {
    /// Handles an event of the process or thread `pid`. While this function runs, `pid` is stopped, unless the event is
    /// `Event::Gone`.
    fn hear(&mut self, pid: Pid, event: Event);

    /// Returns whether `pid` shall stop at its system calls or, where instructions are counted, at its instructions. This
    /// function is called whenever `pid` is resumed. A process whose calls are not traced runs at full speed until it
    /// creates a process, executes a program, receives a signal or ends.
    fn hears_calls_of(&self, pid: Pid) -> bool {
        let _ = pid;
        true
    }

    /// Returns whether to follow containers' own programs and their descendants too.
    fn follows_containers(&self) -> bool {
        false
    }
}

/// A closure receives all events.
impl<F: FnMut(Pid, Event) + Send> Listener for F {
    fn hear(&mut self, pid: Pid, event: Event) {
        self(pid, event);
    }
}

/// An event of a followed process or thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The process or thread was created: the command itself, or a child or thread of a followed process.
    Born {
        /// The process or thread that called clone(2).
        parent: Option<Pid>,
        /// The process to which the thread belongs; for a new process, the process itself.
        process: Pid,
    },
    /// The process has executed a program. Calls and instructions of the command are reported only after its first
    /// event of this kind.
    Executed {
        /// The program's arguments, as /proc/PID/cmdline shows them.
        command: Vec<String>,
        /// Whether the program is a container's. If so, [`Event::Gone`] comes next, unless containers' programs are
        /// followed.
        container: bool,
        /// Instructions since the process's creation or its last execve(2), if they are counted.
        instructions: u64,
    },
    /// The thread enters a system call. A call that the kernel interrupts and restarts is reported once.
    Entered {
        /// The call's number on this architecture; see [`call_name`].
        number: u64,
        /// The call's arguments.
        args: [u64; 6],
        /// The architecture of the call: AUDIT_ARCH_* (linux/audit.h). Programs of another architecture use other call
        /// numbers.
        arch: u32,
    },
    /// The thread returns from a system call. Some calls never return: exit_group, a successful execve.
    Left {
        /// The call's number.
        number: u64,
        /// The call's result.
        result: Result<u64, Errno>,
    },
    /// The thread has executed an instruction, if instructions are counted.
    Stepped {
        /// The address of the instruction that the thread executes next.
        next: u64,
    },
    /// A signal is delivered to the thread.
    Signalled(i32),
    /// The process or thread is no longer followed.
    Gone {
        /// The reason.
        end: End,
        /// Instructions since the creation or the last execve(2) of the process or thread, if they are counted.
        instructions: u64,
    },
}

/// The reason why a process or thread is no longer followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process exited with this status.
    Exited(i32),
    /// This signal killed the process.
    Killed(i32),
    /// The process has executed a container's program.
    Container,
    /// The process was idle after the command had ended, and was left running.
    Left,
    /// The thread called execve(2) in a process of several threads: it goes on under the pid of its process.
    Replaced,
}

/// Returns the name of a system call of this architecture, or `"unknown"` if it is newer than this program.
pub fn call_name(number: u64) -> &'static str {
    usize::try_from(number)
        .ok()
        .and_then(syscalls::Sysno::new)
        .map_or("unknown", |call| call.name())
}
