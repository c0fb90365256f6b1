//! clone3(2): creates a process directly in new namespaces and in its cgroup (Linux 5.3; CLONE_INTO_CGROUP 5.7).
//!
//! Seccomp filters of other runtimes answer clone3(2) with ENOSYS, since they cannot inspect its arguments; filters
//! older than clone3(2) answer EPERM. In both cases clone(2) is used instead, which does not support CLONE_INTO_CGROUP.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use bitflags::bitflags;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::raw::{Arg, address};
use crate::stack::Stack;

bitflags! {
    /// The flags of clone(2) and clone3(2) that dayfly uses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct CloneFlags: u64 {
        /// The child shares the table of descriptors.
        const FILES = 0x400;
        /// The child's parent is the caller's parent.
        const PARENT = 0x8000;
        /// The child's exit sends no signal, so waiting for the child requires __WALL. This is not a flag of the
        /// kernel.
        const SILENT = 1 << 63;
        /// A new mount namespace.
        const NEWNS = 0x2_0000;
        /// A new cgroup namespace, rooted at the caller's cgroup.
        const NEWCGROUP = 0x0200_0000;
        /// A new UTS namespace.
        const NEWUTS = 0x0400_0000;
        /// A new IPC namespace.
        const NEWIPC = 0x0800_0000;
        /// A new user namespace.
        const NEWUSER = 0x1000_0000;
        /// A new PID namespace.
        const NEWPID = 0x2000_0000;
        /// A new network namespace.
        const NEWNET = 0x4000_0000;
        /// A new time namespace (Linux 5.6). dayfly passes this flag to unshare(2) and setns(2) only.
        const NEWTIME = 0x80;
    }
}

impl CloneFlags {
    const OF_KERNEL: Self = Self::all().difference(Self::SILENT);
}

const CLONE_VM: u64 = 0x100;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const SIGCHLD: u64 = 17;

/// `struct clone_args` (clone3(2)).
#[repr(C)]
#[derive(Default)]
struct Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Whether a clone3(2) of this process failed, and the clone(2) that followed succeeded.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The name of a process that only holds a place for another, by which other commands recognize it (comm in proc(5), at
/// most 15 bytes).
pub const HOLDER: &CStr = c"dayfly: holder";

/// The process in which the code runs after a clone.
#[derive(Debug)]
pub enum Clone {
    /// The caller, with its new child.
    Parent(Child),
    /// The new process.
    Child,
}

/// A child process: its pid as the caller sees it, and a pidfd, which refers to this child even after the pid is
/// reused.
#[derive(Debug)]
pub struct Child {
    /// The pid in the caller's PID namespace.
    pub pid: Pid,
    /// The pidfd: readable once the child has exited; close-on-exec.
    pub pidfd: OwnedFd,
}

impl Child {
    /// Returns the child from the result of a call, which is 0 in the child.
    ///
    /// # Safety
    /// If there is a child, `pidfd` is a new descriptor without another owner.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "the kernel returns a pid_t"
    )]
    unsafe fn new(pid: usize, pidfd: RawFd) -> Option<Self> {
        let pid = Pid::from_raw(pid as i32)?;
        // SAFETY: the caller's contract.
        Some(Self { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
    }
}

impl Arguments {
    fn new(flags: CloneFlags, pidfd: &mut RawFd, cgroup: Option<BorrowedFd<'_>>) -> Self {
        let mut arguments = Self {
            // Other bits, such as CLONE_VM, would not leave the caller's memory to the caller.
            flags: flags.intersection(CloneFlags::OF_KERNEL).bits() | CLONE_PIDFD,
            pidfd: address(&raw mut *pidfd),
            // With CLONE_PARENT the kernel requires 0: the caller's own exit signal is used.
            exit_signal: match flags.intersects(CloneFlags::PARENT | CloneFlags::SILENT) {
                true => 0,
                false => SIGCHLD,
            },
            ..Self::default()
        };
        if let Some(dir) = cgroup {
            arguments.flags |= CLONE_INTO_CGROUP;
            arguments.cgroup = u64::from(dir.as_raw_fd().unsigned_abs());
        }
        arguments
    }
}

/// Calls clone3(2), or clone(2) if clone3 is refused and no cgroup is given. `enter` issues the system call with the
/// given number and arguments.
fn with_fallback(
    arguments: &Arguments,
    enter: impl Fn(usize, [Arg; 5]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let whole = crate::raw::args![&raw const *arguments, size_of::<Arguments>(), 0, 0, 0];
    let refusal = match REFUSED.load(Ordering::Relaxed) {
        true => Errno::NOSYS,
        false => match enter(crate::raw::CLONE3, whole) {
            Err(refusal @ (Errno::NOSYS | Errno::PERM)) => refusal,
            result => return result,
        },
    };
    if arguments.flags & CLONE_INTO_CGROUP != 0 {
        return Err(refusal);
    }
    // All flags that dayfly uses exist in clone(2). The exit signal is in the lowest byte, and the pidfd goes where
    // clone(2) stores the child's thread id.
    let flags = arguments.flags | arguments.exit_signal;
    let stack = arguments.stack + arguments.stack_size;
    let made =
        enter(crate::raw::nr::CLONE, crate::raw::args![flags, stack, arguments.pidfd, 0, 0])?;
    REFUSED.store(true, Ordering::Relaxed);
    Ok(made)
}

/// Creates a process with its own copy of memory and descriptors, in the new namespaces given by `flags`. If `cgroup`
/// is given, the process starts in that cgroup v2 directory. Moving it there later would have to wait for the kernel's
/// cgroup_threadgroup_rwsem.
///
/// The child returns from here, too, and has a copy of the calling thread only. The product's programs have one thread.
/// In a process with several, as in tests, the child must take no lock and so must not allocate: it would wait for ever
/// for a lock that another thread held at the clone.
///
/// # Errors
/// Those of clone3(2).
pub fn clone3(flags: CloneFlags, cgroup: Option<BorrowedFd<'_>>) -> Result<Clone, Errno> {
    let mut pidfd: RawFd = -1;
    let arguments = Arguments::new(flags, &mut pidfd, cgroup);
    // SAFETY: `arguments` is a valid clone_args for the length given; memory is not shared and the
    // stack pointer is kept, so the child returns from here on its own copy of this stack.
    let pid =
        with_fallback(&arguments, |call, arguments| unsafe { crate::raw::call(call, arguments) })?;
    // SAFETY: the call has stored the descriptor.
    Ok(unsafe { Child::new(pid, pidfd) }.map_or(Clone::Child, Clone::Parent))
}

/// Creates a process like [`clone3`] in the caller's namespaces, which is killed when the caller exits.
///
/// # Errors
/// Those of clone3(2).
pub fn clone3_bound() -> Result<Clone, Errno> {
    let parent = getpid();
    let made = clone3(CloneFlags::empty(), None)?;
    if matches!(made, Clone::Child) {
        let bound = set_parent_process_death_signal(Some(Signal::KILL));
        // The parent may have exited before the signal was set.
        if bound.is_err() || getppid() != Some(parent) {
            crate::start::exit(1);
        }
    }
    Ok(made)
}

/// Creates a process like [`clone3`] in the caller's namespaces, with the pid `number` (set_tid, Linux 5.5). If the
/// kernel does not permit that, the process gets another pid.
///
/// # Errors
/// Those of clone3(2).
pub fn clone3_numbered(number: i32) -> Result<Clone, Errno> {
    let mut pidfd: RawFd = -1;
    let mut arguments = Arguments::new(CloneFlags::empty(), &mut pidfd, None);
    arguments.set_tid = address(&raw const number);
    arguments.set_tid_size = 1;
    // SAFETY: as in `clone3`; `number` exists until the call returns.
    let made = unsafe {
        crate::raw::call(
            crate::raw::CLONE3,
            crate::raw::args![&raw const arguments, size_of::<Arguments>()],
        )
    };
    let Ok(pid) = made else { return clone3(CloneFlags::empty(), None) };
    // SAFETY: the call has stored the descriptor.
    Ok(unsafe { Child::new(pid, pidfd) }.map_or(Clone::Child, Clone::Parent))
}

/// Creates a process like [`clone3`], except that the child shares the caller's memory (CLONE_VM) and runs
/// `run(argument)` on `stack`. So the kernel copies no page table, and no page has to be faulted in again by the child.
/// The child has its own copy of the descriptor table.
///
/// # Safety
/// Both processes share memory, like threads. Until the child has executed a program or exited, the caller must neither
/// move nor change the stack or anything reachable through `argument`, but for atomics. The child must not allocate.
///
/// # Errors
/// Those of clone3(2).
pub unsafe fn clone3_shared<T>(
    flags: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    run: extern "C" fn(&T) -> !,
    argument: &T,
) -> Result<Child, Errno> {
    // SAFETY: a reference to a sized type is passed like a pointer.
    let run: extern "C" fn(*const c_void) -> ! = unsafe { core::mem::transmute(run) };
    let argument = (&raw const *argument).cast();
    let mut pidfd: RawFd = -1;
    let mut arguments = Arguments::new(flags, &mut pidfd, cgroup);
    arguments.flags |= CLONE_VM;
    arguments.stack = stack.base() as u64;
    arguments.stack_size = stack.len() as u64;
    let pid = with_fallback(&arguments, |call, arguments| {
        // SAFETY: the arguments of the call are valid; the child starts on a stack of its own, and the caller
        // guarantees the rest.
        crate::raw::check(unsafe { enter_shared(call, arguments, run, argument) })
    })?;
    // SAFETY: the call has stored the descriptor.
    unsafe { Child::new(pid, pidfd) }.ok_or(Errno::CHILD)
}

/// Issues the clone call. The child inherits all registers except the result and the stack pointer. So the child finds
/// the function and the argument in registers, and does not access the caller's stack.
///
/// # Safety
/// As [`clone3_shared`].
#[cfg(target_arch = "x86_64")]
unsafe fn enter_shared(
    call: usize,
    arguments: [Arg; 5],
    run: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> isize {
    let result: isize;
    // SAFETY: the caller's contract; the child never returns into this frame.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") call.cast_signed() => result,
            in("rdi") arguments[0].0,
            in("rsi") arguments[1].0,
            in("rdx") arguments[2].0,
            in("r10") arguments[3].0,
            in("r8") arguments[4].0,
            in("r12") argument,
            in("r13") run,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Issues the clone call as on x86-64.
///
/// # Safety
/// As [`clone3_shared`].
#[cfg(target_arch = "aarch64")]
unsafe fn enter_shared(
    call: usize,
    arguments: [Arg; 5],
    run: extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> isize {
    let result: isize;
    // SAFETY: the caller's contract; the child never returns into this frame.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, {argument}",
            "br {run}",
            "2:",
            argument = in(reg) argument,
            run = in(reg) run,
            in("x8") call,
            inlateout("x0") arguments[0].0 => result,
            in("x1") arguments[1].0,
            in("x2") arguments[2].0,
            in("x3") arguments[3].0,
            in("x4") arguments[4].0,
            options(nostack),
        );
    }
    result
}
