//! seccomp(2): loading a filter, and asking what the kernel knows.

use rustix::io::Errno;

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

/// Installs `filter` for this thread and all it becomes (SECCOMP_SET_MODE_FILTER).
///
/// # Errors
/// EACCES without CAP_SYS_ADMIN or no_new_privs; EINVAL for a filter or flags the kernel refuses.
pub fn load(filter: &[Instruction], flags: u32) -> Result<(), Errno> {
    let len = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = Program { len, filter: filter.as_ptr() };
    // SAFETY: program and filter are valid for the length given; the kernel copies them.
    unsafe {
        crate::raw::call(
            crate::raw::nr::SECCOMP,
            [SECCOMP_SET_MODE_FILTER, flags as usize, (&raw const program).addr()],
        )
    }
    .map(drop)
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
