//! Signals: the signal mask, dispositions, signalfd(2), and sending to a pidfd or a pid.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::Pid;

const SIG_SETMASK: usize = 2;

/// A set of signals in the kernel's format: signal n is bit n−1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// Every signal.
    pub const ALL: Self = Self(u64::MAX);
    /// No signal.
    pub const EMPTY: Self = Self(0);
    /// SIGHUP, SIGINT, SIGQUIT and SIGTERM, by which a user or a service manager ends a command.
    pub const INTERRUPTS: Self = Self(1 | 1 << 1 | 1 << 2 | 1 << 14);
    /// SIGUSR1.
    pub const USR1: Self = Self(1 << 9);
    /// SIGUSR1, and SIGPIPE, which ends a process that writes to a pipe without readers.
    pub const USR1_AND_PIPE: Self = Self(1 << 9 | 1 << 12);
}

/// Replaces the mask of blocked signals; returns the old one.
///
/// # Errors
/// None in practice.
pub fn set_mask(set: SignalSet) -> Result<SignalSet, Errno> {
    let mut old = 0u64;
    // SAFETY: both sets are 8 bytes, as the last argument says.
    unsafe {
        crate::raw::call(
            crate::raw::nr::RT_SIGPROCMASK,
            crate::raw::args![SIG_SETMASK, &raw const set.0, &raw mut old, 8],
        )
    }?;
    Ok(SignalSet(old))
}

/// SIGHUP, SIGINT, SIGQUIT, SIGABRT and SIGTERM, the signals commonly sent to end a program: a bit of each number.
const ENDING: u64 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 15;
/// SIGKILL and SIGSTOP, whose actions cannot be changed.
const FIXED: u64 = 1 << 9 | 1 << 19;
/// The exit status after one of the signals in [`ENDING`], as with runc's init.
const ENDED: i32 = 2;

/// Resets every signal to its default action, so that a container's process does not inherit signals that the caller
/// ignores. Until exec, the signals commonly sent to end a program have a handler that exits this process. Without a
/// handler, the first process of a PID namespace would not receive them (pid_namespaces(7)).
pub fn reset_dispositions() {
    const SA_RESTORER: u64 = 0x0400_0000;
    let handler = end as extern "C" fn(i32) -> !;
    let handler = crate::raw::address(handler as *const ());
    // x86-64 requires a restorer, although a handler that never returns does not need one.
    let ends = [handler, SA_RESTORER, handler, u64::MAX];
    for signal in 1..=64usize {
        // The bit of signal 64 is 0, that of no signal of the sets.
        let is_in = |set: u64| set >> (signal % 64) & 1 != 0;
        if is_in(FIXED) {
            continue;
        }
        let action = if is_in(ENDING) { &ends } else { &DEFAULT };
        // SAFETY: the handler of `ends` only makes a system call and does not return.
        unsafe { set_action(signal, action) };
    }
}

/// A `struct kernel_sigaction`: handler (SIG_DFL is 0, SIG_IGN is 1), flags, restorer, mask.
type Action = [u64; 4];
const DEFAULT: Action = [0; 4];

/// Calls rt_sigaction(2). For a valid signal it does not fail.
///
/// # Safety
/// The action must be SIG_DFL or SIG_IGN, or have a handler that may run at any time.
#[inline(always)]
unsafe fn set_action(signal: usize, action: &Action) {
    // SAFETY: the action is read only, and has a mask of 8 bytes; the caller's contract.
    let _ = unsafe {
        crate::raw::call(
            crate::raw::nr::RT_SIGACTION,
            crate::raw::args![signal, &raw const *action, 0, 8],
        )
    };
}

extern "C" fn end(_: i32) -> ! {
    crate::start::exit(ENDED)
}

/// Resets SIGCHLD to its default action. If the process inherits SIGCHLD as ignored, the kernel reaps its children and
/// their exit status is lost (wait(2), "NOTES").
pub fn reset_sigchld() {
    const SIGCHLD: usize = 17;
    // SAFETY: the action is SIG_DFL.
    unsafe { set_action(SIGCHLD, &DEFAULT) };
}

/// Ignores SIGXFSZ, or resets it to its default action. While it is ignored, a write beyond the caller's limit of file
/// sizes (RLIMIT_FSIZE) fails with EFBIG, which can be reported; the default action kills the process (setrlimit(2)).
/// Ignoring the signal also discards one that is pending.
pub fn ignore_file_size(ignored: bool) {
    const SIGXFSZ: usize = 25;
    // SAFETY: the action is SIG_IGN or SIG_DFL.
    unsafe { set_action(SIGXFSZ, &[u64::from(ignored), 0, 0, 0]) };
}

/// Returns a descriptor that yields the signals of `set`, which must be blocked; close-on-exec, non-blocking.
///
/// # Errors
/// Those of signalfd(2).
pub fn signalfd(set: SignalSet) -> Result<OwnedFd, Errno> {
    const SFD_CLOEXEC_NONBLOCK: usize = 0o2_000_000 | 0o4000;
    // SAFETY: the set is 8 bytes; on success the kernel returns a new descriptor.
    unsafe {
        let fd = crate::raw::call(
            crate::raw::nr::SIGNALFD4,
            crate::raw::args![usize::MAX, &raw const set.0, 8, SFD_CLOEXEC_NONBLOCK],
        )?;
        Ok(crate::raw::new_fd(fd))
    }
}

/// Reads one signal's number from a [`signalfd`].
///
/// # Errors
/// EAGAIN if none is pending.
pub fn read_signal(fd: BorrowedFd<'_>) -> Result<i32, Errno> {
    let mut info = [0u8; 128];
    rustix::io::read(fd, &mut info)?;
    let [a, b, c, d, ..] = info;
    Ok(i32::from_ne_bytes([a, b, c, d]))
}

/// Sends `signal` to the process that `pidfd` refers to; signal 0 only checks whether the process exists.
///
/// # Errors
/// ESRCH if the process has exited; EINVAL for an invalid signal number; EPERM.
pub fn send(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    // SAFETY: no siginfo is passed.
    unsafe { crate::raw::call(crate::raw::PIDFD_SEND_SIGNAL, [pidfd.as_raw_fd(), signal, 0, 0]) }
        .map(drop)
}

/// Sends `signal` to `pid` through a pidfd. If the pid is reused after the pidfd was opened, the signal does not reach
/// the new process.
///
/// # Errors
/// As [`send`].
pub fn send_to(pid: Pid, signal: i32) -> Result<(), Errno> {
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    send(rustix::fd::AsFd::as_fd(&pidfd), signal)
}
