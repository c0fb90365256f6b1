//! seccomp(2): loads a filter, and checks which flags and actions the kernel supports.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// SECCOMP_FILTER_FLAG_NEW_LISTENER (Linux 5.0): loading the filter returns a descriptor, from which system calls with
/// the result SECCOMP_RET_USER_NOTIF can be read (seccomp_unotify(2)).
pub const NEW_LISTENER: u32 = 8;

const SECCOMP_SET_MODE_FILTER: usize = 1;

/// `struct sock_filter`: one classic BPF instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// The distance of the jump if the condition is true, in instructions.
    pub jt: u8,
    /// The distance of the jump if the condition is false, in instructions.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

/// Installs `filter` for this thread, its children and the programs they execute (SECCOMP_SET_MODE_FILTER). Returns the
/// listener, close-on-exec, if `flags` contain [`NEW_LISTENER`].
///
/// # Errors
/// EACCES with neither CAP_SYS_ADMIN nor no_new_privs; EBUSY for a second listener; EINVAL for a filter or flags that
/// the kernel refuses.
pub fn load(filter: &[Instruction], flags: u32) -> Result<Option<OwnedFd>, Errno> {
    let len = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = Program { len, filter: filter.as_ptr() };
    // SAFETY: program and filter are valid for the length given; the kernel copies them.
    let result = unsafe {
        crate::raw::call(
            crate::raw::nr::SECCOMP,
            crate::raw::args![SECCOMP_SET_MODE_FILTER, flags, &raw const program],
        )
    }?;
    // SAFETY: with this flag the kernel returned a new descriptor without another owner.
    Ok((flags & NEW_LISTENER != 0).then(|| unsafe { crate::raw::new_fd(result) }))
}

/// Returns whether the kernel supports all these SECCOMP_FILTER_FLAG_* bits. No filter is loaded: the pointer to it is
/// null, and the kernel checks the flags before it reads the filter.
pub fn flags_known(flags: u32) -> bool {
    // SAFETY: the kernel refuses the null pointer.
    let result = unsafe {
        crate::raw::call(
            crate::raw::nr::SECCOMP,
            crate::raw::args![SECCOMP_SET_MODE_FILTER, flags, 0],
        )
    };
    result == Err(Errno::FAULT)
}
