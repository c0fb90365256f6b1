//! What happens to those who are followed.

use rustix::io::Errno;
use rustix::process::Pid;

/// Who is told what happens to those who are followed.
pub trait Listener: Send {
    /// Something has happened to `pid`, which stands still meanwhile, but for its end.
    fn hear(&mut self, pid: Pid, event: Event);

    /// Whether `pid` is to stop at its system calls. Asked whenever it is let go: one that nobody listens to runs
    /// at its own speed until it makes a process, executes a program, gets a signal or ends.
    fn hears_calls_of(&self, pid: Pid) -> bool {
        let _ = pid;
        true
    }

    /// Whether containers' own programs, and what these make, are followed as well.
    fn follows_containers(&self) -> bool {
        false
    }
}

/// A closure hears everything.
impl<F: FnMut(Pid, Event) + Send> Listener for F {
    fn hear(&mut self, pid: Pid, event: Event) {
        self(pid, event);
    }
}

/// Something that a followed process or thread did, or that happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It was born: of nobody (the command itself), or of a process or thread that is followed.
    Born {
        /// Who cloned it.
        parent: Option<Pid>,
        /// The process that it is a thread of; itself, if it is a process.
        process: Pid,
    },
    /// It has executed a program. The command's first such event is where following begins.
    Executed {
        /// The program's arguments, as /proc shows them.
        command: Vec<String>,
        /// Whether that is a container's program: [`Event::Gone`] comes next, unless these are followed.
        container: bool,
        /// Instructions since its birth or its last program, when these are counted.
        instructions: u64,
    },
    /// It makes a system call. One that the kernel interrupts and makes again is told once.
    Entered {
        /// The call's number on this architecture; see [`call_name`].
        number: u64,
        /// Its arguments.
        args: [u64; 6],
        /// The architecture whose call it is: AUDIT_ARCH_* (linux/audit.h). A program of another one than this counts
        /// its calls otherwise.
        arch: u32,
    },
    /// The call has been made. Some never are: exit_group, an execve that works.
    Left {
        /// The call's number.
        number: u64,
        /// What it returned.
        result: Result<u64, Errno>,
    },
    /// A signal is delivered to it.
    Signalled(i32),
    /// It is followed no longer.
    Gone {
        /// Why.
        end: End,
        /// Instructions since its birth or its last program, when these are counted.
        instructions: u64,
    },
}

/// Why something is followed no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It returned this exit status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It has become a container's program.
    Container,
    /// It was left running when the command had ended and it did nothing more.
    Left,
    /// It is one of several threads that ended because another one executed a program.
    Replaced,
}

/// The name of a system call of this architecture, `"unknown"` if newer than this program.
#[must_use]
pub fn call_name(number: u64) -> &'static str {
    usize::try_from(number)
        .ok()
        .and_then(syscalls::Sysno::new)
        .map_or("unknown", |call| call.name())
}
