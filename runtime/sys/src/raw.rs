//! The system call instruction itself.
//!
//! Numbers that both architectures share, such as those of all calls since Linux 5.1, are constants of this file.
//! Numbers that differ are in [`nr`].

use core::ptr;

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Numbers of system calls that rustix does not wrap.
#[cfg(target_arch = "x86_64")]
pub mod nr {
    /// clone(2)
    pub const CLONE: usize = 56;
    /// execve(2)
    pub const EXECVE: usize = 59;
    /// execveat(2)
    pub const EXECVEAT: usize = 322;
    /// rt_sigprocmask(2)
    pub const RT_SIGPROCMASK: usize = 14;
    /// rt_sigaction(2)
    pub const RT_SIGACTION: usize = 13;
    /// signalfd4(2)
    pub const SIGNALFD4: usize = 289;
    /// keyctl(2)
    pub const KEYCTL: usize = 250;
    /// seccomp(2)
    pub const SECCOMP: usize = 317;
    /// bpf(2)
    pub const BPF: usize = 321;
    /// exit_group(2)
    pub const EXIT_GROUP: usize = 231;
    /// mmap(2)
    pub const MMAP: usize = 9;
    /// ioctl(2)
    pub const IOCTL: usize = 16;
    /// getcwd(2)
    pub const GETCWD: usize = 79;
    /// sched_setaffinity(2)
    pub const SCHED_SETAFFINITY: usize = 203;
    /// sched_getaffinity(2)
    pub const SCHED_GETAFFINITY: usize = 204;
    /// sched_setattr(2)
    pub const SCHED_SETATTR: usize = 314;
    /// ioprio_set(2)
    pub const IOPRIO_SET: usize = 251;
    /// set_mempolicy(2)
    pub const SET_MEMPOLICY: usize = 238;
    /// personality(2)
    pub const PERSONALITY: usize = 135;
    /// fanotify_init(2)
    pub const FANOTIFY_INIT: usize = 300;
    /// fanotify_mark(2)
    pub const FANOTIFY_MARK: usize = 301;
    /// semget(2)
    pub const SEMGET: usize = 64;
    /// semctl(2)
    pub const SEMCTL: usize = 66;
    /// setsockopt(2)
    pub const SETSOCKOPT: usize = 54;
    /// recvmsg(2)
    pub const RECVMSG: usize = 47;
    /// semtimedop(2)
    pub const SEMTIMEDOP: usize = 220;
    /// userfaultfd(2)
    pub const USERFAULTFD: usize = 323;
}

/// Numbers of system calls that rustix does not wrap.
#[cfg(target_arch = "aarch64")]
pub mod nr {
    /// clone(2)
    pub const CLONE: usize = 220;
    /// execve(2)
    pub const EXECVE: usize = 221;
    /// execveat(2)
    pub const EXECVEAT: usize = 281;
    /// rt_sigprocmask(2)
    pub const RT_SIGPROCMASK: usize = 135;
    /// rt_sigaction(2)
    pub const RT_SIGACTION: usize = 134;
    /// signalfd4(2)
    pub const SIGNALFD4: usize = 74;
    /// keyctl(2)
    pub const KEYCTL: usize = 219;
    /// seccomp(2)
    pub const SECCOMP: usize = 277;
    /// bpf(2)
    pub const BPF: usize = 280;
    /// exit_group(2)
    pub const EXIT_GROUP: usize = 94;
    /// mmap(2)
    pub const MMAP: usize = 222;
    /// ioctl(2)
    pub const IOCTL: usize = 29;
    /// getcwd(2)
    pub const GETCWD: usize = 17;
    /// sched_setaffinity(2)
    pub const SCHED_SETAFFINITY: usize = 122;
    /// sched_getaffinity(2)
    pub const SCHED_GETAFFINITY: usize = 123;
    /// sched_setattr(2)
    pub const SCHED_SETATTR: usize = 274;
    /// ioprio_set(2)
    pub const IOPRIO_SET: usize = 30;
    /// set_mempolicy(2)
    pub const SET_MEMPOLICY: usize = 237;
    /// personality(2)
    pub const PERSONALITY: usize = 92;
    /// fanotify_init(2)
    pub const FANOTIFY_INIT: usize = 262;
    /// fanotify_mark(2)
    pub const FANOTIFY_MARK: usize = 263;
    /// semget(2)
    pub const SEMGET: usize = 190;
    /// semctl(2)
    pub const SEMCTL: usize = 191;
    /// setsockopt(2)
    pub const SETSOCKOPT: usize = 208;
    /// recvmsg(2)
    pub const RECVMSG: usize = 212;
    /// semtimedop(2)
    pub const SEMTIMEDOP: usize = 192;
    /// userfaultfd(2)
    pub const USERFAULTFD: usize = 282;
}

/// clone3(2), Linux 5.3; the same number on every architecture.
pub const CLONE3: usize = 435;
/// pidfd_send_signal(2), Linux 5.1.
pub const PIDFD_SEND_SIGNAL: usize = 424;
/// close_range(2), Linux 5.9.
pub const CLOSE_RANGE: usize = 436;
/// mount_setattr(2), Linux 5.12.
pub const MOUNT_SETATTR: usize = 442;
/// open_tree_attr(2)
pub const OPEN_TREE_ATTR: usize = 467;

/// An argument of a system call: a number, or a pointer.
///
/// Pointers reach the system call instruction as pointers. The compiler so knows that the kernel may read and write
/// what they point to; of a bare address, it need not assume that.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Arg(pub(crate) *mut ());

macro_rules! from_numbers {
    ($($number:ty),+) => {$(
        impl From<$number> for Arg {
            #[inline(always)]
            #[allow(
                trivial_numeric_casts,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the kernel reads the register as a number of this type"
            )]
            fn from(number: $number) -> Self {
                Self(ptr::without_provenance_mut(number as usize))
            }
        }
    )+};
}
from_numbers!(usize, i32, u32, u64);

impl<T> From<*const T> for Arg {
    #[inline(always)]
    fn from(pointer: *const T) -> Self {
        Self(pointer.cast_mut().cast())
    }
}

impl<T> From<*mut T> for Arg {
    #[inline(always)]
    fn from(pointer: *mut T) -> Self {
        Self(pointer.cast())
    }
}

/// The arguments of a system call, some of which are pointers.
macro_rules! args {
    ($($argument:expr),+ $(,)?) => { [$($crate::raw::Arg::from($argument)),+] };
}
pub(crate) use args;

/// Returns the address of memory that the kernel accesses, for a field of a structure that is passed to the kernel. The
/// address is exposed: the compiler knows that code outside the program may use it.
#[inline(always)]
pub(crate) fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// Issues a system call and returns what the kernel returned, unchecked.
///
/// # Safety
/// The arguments must meet the requirements in the call's man page.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub unsafe fn syscall(nr: usize, args: [Arg; 6]) -> isize {
    let ret: isize;
    // SAFETY: the kernel clobbers rcx and r11 only; the caller guarantees the arguments.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") nr.cast_signed() => ret,
            in("rdi") args[0].0, in("rsi") args[1].0, in("rdx") args[2].0,
            in("r10") args[3].0, in("r8") args[4].0, in("r9") args[5].0,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    ret
}

/// Issues a system call and returns what the kernel returned, unchecked.
///
/// # Safety
/// The arguments must meet the requirements in the call's man page.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub unsafe fn syscall(nr: usize, args: [Arg; 6]) -> isize {
    let ret: isize;
    // SAFETY: the kernel preserves every register but x0; the caller guarantees the arguments.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") nr,
            inlateout("x0") args[0].0 => ret,
            in("x1") args[1].0, in("x2") args[2].0, in("x3") args[3].0,
            in("x4") args[4].0, in("x5") args[5].0,
            options(nostack),
        );
    }
    ret
}

/// Converts a raw return value to a result: −4095…−1 is an errno.
#[inline]
pub fn check(ret: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&ret) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 4095")]
        Err(Errno::from_raw_os_error(-(ret as i32)))
    } else {
        Ok(ret.cast_unsigned())
    }
}

/// Returns the lower and the upper half of a word.
pub const fn halves(word: u64) -> [u32; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "the other half is the other number")]
    [word as u32, (word >> 32) as u32]
}

/// Returns the size of a structure, for a field of 32 bits.
pub(crate) const fn size<T>() -> u32 {
    const { assert!(size_of::<T>() < 1 << 16) };
    #[expect(clippy::cast_possible_truncation, reason = "it is below 2^16")]
    let size = size_of::<T>() as u32;
    size
}

/// Returns the descriptor that a system call has returned.
///
/// # Safety
/// The number is a new descriptor without another owner.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the kernel returns an int"
)]
pub(crate) unsafe fn new_fd(number: usize) -> OwnedFd {
    // SAFETY: the caller's contract.
    unsafe { OwnedFd::from_raw_fd(number as i32) }
}

/// Issues a system call with up to six arguments, like [`syscall`], and converts the return value to a result.
///
/// # Safety
/// The arguments must meet the requirements in the call's man page.
#[inline(always)]
pub unsafe fn call<A: Into<Arg> + Copy, const N: usize>(
    nr: usize,
    args: [A; N],
) -> Result<usize, Errno> {
    const { assert!(N <= 6) };
    // Without a loop, which would stay one with opt-level "s", at each of the calls.
    let at = |index: usize| match args.get(index) {
        Some(argument) => (*argument).into(),
        None => Arg(ptr::null_mut()),
    };
    let all = [at(0), at(1), at(2), at(3), at(4), at(5)];
    // SAFETY: the caller's contract.
    check(unsafe { syscall(nr, all) })
}
