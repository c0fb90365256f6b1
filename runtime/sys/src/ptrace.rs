//! ptrace(2) in its modern form: PTRACE_SEIZE (Linux 3.4) and PTRACE_GET_SYSCALL_INFO (5.3).
//!
//! [`wait`] reports the tracees and children of the calling thread only, not those of other threads in the process.

use core::ffi::CStr;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use crate::clone::{Child, Clone, CloneFlags};
use crate::exec::StringArray;

#[cfg(target_arch = "x86_64")]
const PTRACE: usize = 101;
#[cfg(target_arch = "aarch64")]
const PTRACE: usize = 117;
#[cfg(target_arch = "x86_64")]
const PERSONALITY: usize = 135;
#[cfg(target_arch = "aarch64")]
const PERSONALITY: usize = 92;

const PTRACE_CONT: usize = 7;
const PTRACE_SINGLESTEP: usize = 9;
const PTRACE_DETACH: usize = 17;
const PTRACE_SYSCALL: usize = 24;
const PTRACE_GETEVENTMSG: usize = 0x4201;
const PTRACE_SEIZE: usize = 0x4206;
const PTRACE_INTERRUPT: usize = 0x4207;
const PTRACE_LISTEN: usize = 0x4208;
const PTRACE_GET_SYSCALL_INFO: usize = 0x420e;

/// PTRACE_O_TRACESYSGOOD, TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC and EXITKILL.
const OPTIONS: i32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x10_0000;

const SIGTRAP: i32 = 5;

/// Attaches to `pid` (PTRACE_SEIZE), and automatically to the children that it creates. If the tracing thread exits,
/// the kernel kills all tracees.
///
/// # Errors
/// EPERM without permission, or if the process is already traced; ESRCH if it does not exist.
pub fn seize(pid: Pid) -> Result<(), Errno> {
    plain(PTRACE_SEIZE, pid, OPTIONS)
}

/// The point up to which a resumed tracee runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// The tracee runs until the next event.
    Freely,
    /// The tracee runs until it enters or leaves a system call.
    ToCall,
    /// The tracee executes one instruction.
    ByStep,
}

/// Resumes a stopped tracee, and delivers `signal` unless it is 0.
///
/// # Errors
/// ESRCH if the tracee is not stopped, or has exited.
pub fn resume(pid: Pid, how: Resume, signal: i32) -> Result<(), Errno> {
    let request = match how {
        Resume::Freely => PTRACE_CONT,
        Resume::ToCall => PTRACE_SYSCALL,
        Resume::ByStep => PTRACE_SINGLESTEP,
    };
    plain(request, pid, signal)
}

/// Leaves a tracee in its job-control stop until SIGCONT.
///
/// # Errors
/// As [`resume`]; EIO if the tracee is not in such a stop.
pub fn listen(pid: Pid) -> Result<(), Errno> {
    plain(PTRACE_LISTEN, pid, 0)
}

/// Makes a running tracee stop soon.
///
/// # Errors
/// ESRCH if the tracee has exited.
pub fn interrupt(pid: Pid) -> Result<(), Errno> {
    plain(PTRACE_INTERRUPT, pid, 0)
}

/// Detaches from a stopped tracee, and delivers `signal` unless it is 0.
///
/// # Errors
/// As [`resume`].
pub fn detach(pid: Pid, signal: i32) -> Result<(), Errno> {
    plain(PTRACE_DETACH, pid, signal)
}

fn plain(request: usize, pid: Pid, data: i32) -> Result<(), Errno> {
    // SAFETY: requests of this kind take numbers and do not access the caller's memory.
    unsafe { crate::raw::call(PTRACE, crate::raw::args![request, pid.as_raw_pid(), 0, data]) }
        .map(drop)
}

/// Returns the message of an event (PTRACE_GETEVENTMSG): the tid of the new process or thread at [`Event::Child`] and
/// [`Event::Clone`], or the thread's former tid at [`Event::Exec`].
///
/// # Errors
/// As [`resume`].
pub fn message(pid: Pid) -> Result<Option<Pid>, Errno> {
    let mut message = 0usize;
    // SAFETY: the kernel stores one unsigned long.
    unsafe {
        crate::raw::call(
            PTRACE,
            crate::raw::args![PTRACE_GETEVENTMSG, pid.as_raw_pid(), 0, &raw mut message],
        )
    }?;
    Ok(i32::try_from(message).ok().and_then(Pid::from_raw))
}

/// The state of a stopped tracee: where it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The instruction pointer.
    pub instruction: u64,
    /// The system call, if the tracee stopped at an entry or exit.
    pub call: Option<Call>,
}

/// The entry to or the exit from a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// At entry.
    Entry {
        /// The call's number in the ABI given by `arch`.
        number: u64,
        /// The contents of the argument registers.
        args: [u64; 6],
        /// The ABI of the call: AUDIT_ARCH_* (linux/audit.h).
        arch: u32,
    },
    /// At exit, with the kernel's return value; −4095…−1 is an errno.
    Exit(i64),
}

/// `struct ptrace_syscall_info` (ptrace(2)).
#[repr(C)]
#[derive(Default)]
struct CallInfo {
    op: u8,
    padding: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At entry: the number and the arguments. At exit: the return value, and whether it is an error.
    values: [u64; 8],
}

/// Returns the state of a stopped tracee.
///
/// # Errors
/// As [`resume`]; EIO on kernels before 5.3.
pub fn place(pid: Pid) -> Result<Place, Errno> {
    const OP_ENTRY: u8 = 1;
    const OP_EXIT: u8 = 2;
    let mut info = CallInfo::default();
    let size = size_of::<CallInfo>();
    // SAFETY: the kernel stores at most `size` bytes, and any bytes make a CallInfo.
    unsafe {
        crate::raw::call(
            PTRACE,
            crate::raw::args![PTRACE_GET_SYSCALL_INFO, pid.as_raw_pid(), size, &raw mut info],
        )
    }?;
    let [first, a, b, c, d, e, f, _] = info.values;
    let call = match info.op {
        OP_ENTRY => Some(Call::Entry { number: first, args: [a, b, c, d, e, f], arch: info.arch }),
        OP_EXIT => Some(Call::Exit(first.cast_signed())),
        _ => None,
    };
    Ok(Place { instruction: info.instruction_pointer, call })
}

/// A report of [`wait`] about one tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The tracee exited with this status.
    Exited(i32),
    /// This signal killed the tracee.
    Killed(i32),
    /// Signal-delivery-stop by this signal. After a single step, the signal is SIGTRAP.
    Signal(i32),
    /// Syscall-stop: at the entry to or exit from a system call.
    Call,
    /// PTRACE_EVENT stop.
    Event(Event),
}

/// Events that stop a tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The tracee created a process with fork(2) or vfork(2) ([`message`]).
    Child,
    /// The tracee created a thread or process with clone(2) ([`message`]).
    Clone,
    /// The tracee has executed a program.
    Exec,
    /// Group-stop: job control stopped the tracee with this signal.
    Group(i32),
    /// The tracee was just created, interrupted, or resumed from a group-stop.
    Pause,
}

/// Waits for a tracee or child of this thread to stop or exit; reaps it if it exited. Without `block`, returns `None`
/// at once if none has stopped or exited.
///
/// # Errors
/// ECHILD if the thread has no tracees or children; EINTR.
pub fn wait(block: bool) -> Result<Option<(Pid, Report)>, Errno> {
    /// Waits only for children of this thread.
    const WNOTHREAD: u32 = 0x2000_0000;
    /// Waits for children with any exit signal.
    const WALL: u32 = 0x4000_0000;
    let mut options = WaitOptions::from_bits_retain(WNOTHREAD | WALL);
    options.set(WaitOptions::NOHANG, !block);
    let answer = rustix::process::wait(options)?;
    Ok(answer.map(|(pid, status)| (pid, report(status.as_raw()))))
}

fn report(status: i32) -> Report {
    let signal = (status >> 8) & 0xff;
    match (status & 0x7f, status >> 16) {
        (0, _) => Report::Exited(signal),
        (0x7f, 0) if signal == SIGTRAP | 0x80 => Report::Call,
        (0x7f, 0) => Report::Signal(signal),
        (0x7f, 1 | 2) => Report::Event(Event::Child),
        (0x7f, 3) => Report::Event(Event::Clone),
        (0x7f, 4) => Report::Event(Event::Exec),
        (0x7f, 128) if signal != SIGTRAP => Report::Event(Event::Group(signal)),
        (0x7f, _) => Report::Event(Event::Pause),
        (killer, _) => Report::Killed(killer),
    }
}

/// A program to execute once the tracer is attached.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file to execute. A relative path is resolved from `dir`.
    pub path: &'a CStr,
    /// The program's arguments, the first of which is its name.
    pub argv: &'a StringArray<'a>,
    /// The program's environment.
    pub envp: &'a StringArray<'a>,
    /// The program's working directory.
    pub dir: &'a CStr,
    /// The program's standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Whether the memory layout is the same at each run (ADDR_NO_RANDOMIZE).
    pub fixed_layout: bool,
}

/// Creates a child that reads one byte from `gate` and then executes `program`. If the other end is closed before a
/// byte is sent, or if the program cannot be executed, the child exits with the errno.
///
/// `gate` is the reading end of a pipe or socket, and `ours` is the other end. The child closes its copy of `ours`.
///
/// # Errors
/// Those of clone3(2).
pub fn spawn(
    program: &Program<'_>,
    gate: BorrowedFd<'_>,
    ours: BorrowedFd<'_>,
) -> Result<Child, Errno> {
    // The child takes no lock: it only makes system calls on data prepared before, then executes the program or exits.
    match crate::clone::clone3(CloneFlags::empty(), None)? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => {
            let errno = execute(program, gate, ours);
            // SAFETY: no pointers; ends this process.
            unsafe { crate::raw::syscall(crate::raw::nr::EXIT_GROUP, exit_status(errno)) };
            unreachable!("exit_group does not return")
        }
    }
}

fn exit_status(errno: Errno) -> [crate::raw::Arg; 6] {
    crate::raw::args![errno.raw_os_error(), 0, 0, 0, 0, 0]
}

fn execute(program: &Program<'_>, gate: BorrowedFd<'_>, ours: BorrowedFd<'_>) -> Errno {
    match prepare(program, gate, ours) {
        Ok(()) => crate::exec::execve(program.path, program.argv, program.envp, None),
        Err(errno) => errno,
    }
}

fn prepare(program: &Program<'_>, gate: BorrowedFd<'_>, ours: BorrowedFd<'_>) -> Result<(), Errno> {
    const ADDR_NO_RANDOMIZE: usize = 0x4_0000;
    // SAFETY: the descriptor is the child's own copy, which the child never uses.
    unsafe { rustix::io::close(rustix::fd::AsRawFd::as_raw_fd(&ours)) };
    if rustix::io::read(gate, &mut [0_u8; 1])? == 0 {
        return Err(Errno::CANCELED);
    }
    if program.fixed_layout {
        // SAFETY: a number; takes effect at execve.
        unsafe { crate::raw::call(PERSONALITY, [ADDR_NO_RANDOMIZE]) }?;
    }
    let [stdin, stdout, stderr] = program.stdio;
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)?;
    rustix::process::chdir(program.dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_status() {
        assert_eq!(report(0x0300), Report::Exited(3));
        assert_eq!(report(9), Report::Killed(9));
        assert_eq!(report(0x8b), Report::Killed(11));
        assert_eq!(report(0x857f), Report::Call);
        assert_eq!(report(0x057f), Report::Signal(5));
        assert_eq!(report(0x2_057f), Report::Event(Event::Child));
        assert_eq!(report(0x4_057f), Report::Event(Event::Exec));
        assert_eq!(report(0x80_137f), Report::Event(Event::Group(19)));
        assert_eq!(report(0x80_057f), Report::Event(Event::Pause));
    }

    #[test]
    fn a_stranger_is_no_tracee() {
        assert_eq!(resume(Pid::INIT, Resume::Freely, 0), Err(Errno::SRCH));
        assert_eq!(place(Pid::INIT), Err(Errno::SRCH));
    }
}
