//! seccomp(2): loading a filter, and asking what the kernel knows.

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// SECCOMP_FILTER_FLAG_NEW_LISTENER (Linux 5.0): the filter's load returns a descriptor over which calls
/// with the verdict SECCOMP_RET_USER_NOTIF are decided (seccomp_unotify(2)).
pub const NEW_LISTENER: u32 = 8;

const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_GET_ACTION_AVAIL: usize = 2;

/// `struct sock_filter`: one classic BPF instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump if true, in instructions.
    pub jt: u8,
    /// Jump if false, in instructions.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

/// Installs `filter` for this thread and all it becomes (SECCOMP_SET_MODE_FILTER). Gives the listener,
/// close-on-exec, where `flags` have [`NEW_LISTENER`].
///
/// # Errors
/// EACCES without CAP_SYS_ADMIN or no_new_privs; EBUSY for a second listener; EINVAL for a filter or
/// flags the kernel refuses.
pub fn load(filter: &[Instruction], flags: u32) -> Result<Option<OwnedFd>, Errno> {
    let len = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = Program { len, filter: filter.as_ptr() };
    // SAFETY: program and filter are valid for the length given; the kernel copies them.
    let result = unsafe {
        crate::raw::call(
            crate::raw::nr::SECCOMP,
            [SECCOMP_SET_MODE_FILTER, flags as usize, (&raw const program).addr()],
        )
    }?;
    // SAFETY: with this flag what the kernel returned is a new descriptor, nobody else's.
    Ok((flags & NEW_LISTENER != 0).then(|| unsafe { OwnedFd::from_raw_fd(result as i32) }))
}

/// Whether the kernel knows SECCOMP_FILTER_FLAG_* bits. It looks at them before the filter, of which it is
/// given none.
pub fn flags_known(flags: u32) -> bool {
    // SAFETY: the kernel refuses the null pointer.
    let result = unsafe {
        crate::raw::call(crate::raw::nr::SECCOMP, [SECCOMP_SET_MODE_FILTER, flags as usize, 0])
    };
    result == Err(Errno::FAULT)
}

/// Whether the kernel knows a SECCOMP_RET_* action (Linux 4.14).
pub fn action_available(action: u32) -> bool {
    // SAFETY: a pointer to four readable bytes.
    unsafe {
        crate::raw::call(
            crate::raw::nr::SECCOMP,
            [SECCOMP_GET_ACTION_AVAIL, 0, (&raw const action).addr()],
        )
    }
    .is_ok()
}
