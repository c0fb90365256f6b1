//! Identifies the program that a bpf(2) descriptor refers to.

use alloc_crate::vec;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

use crate::bpf::Instruction;
use crate::raw::address;

const BPF_OBJ_GET_INFO_BY_FD: usize = 15;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;

/// The attributes of BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
struct Query {
    fd: u32,
    info_size: u32,
    info: u64,
}

/// The head of `struct bpf_prog_info`. The kernel fills in only the fields that fit the given size.
#[repr(C)]
#[derive(Default)]
struct Info {
    program_type: u32,
    id: u32,
    tag: [u8; 8],
    machine_code_size: u32,
    code_size: u32,
    machine_code: u64,
    code: u64,
}

/// Returns whether `fd` is a device program (BPF_PROG_TYPE_CGROUP_DEVICE) whose instructions in the kernel are exactly
/// those of `program` (Linux 4.13). The result is false, too, if the verifier rewrote the program, and for every
/// program if net.core.bpf_jit_harden hides constants.
///
/// # Errors
/// EINVAL if `fd` is neither a program nor a map; EPERM without CAP_BPF (CAP_SYS_ADMIN before 5.8).
pub fn is_device_program(fd: BorrowedFd<'_>, program: &[Instruction]) -> Result<bool, Errno> {
    let size = u32::try_from(size_of_val(program)).map_err(|_| Errno::TOOBIG)?;
    let mut code = vec![Instruction::default(); program.len()];
    let mut info = Info { code_size: size, code: address(code.as_mut_ptr()), ..Info::default() };
    let mut query = Query {
        fd: fd.as_raw_fd().unsigned_abs(),
        info_size: crate::raw::size::<Info>(),
        info: address(&raw mut info),
    };
    // SAFETY: query and info have the sizes given and outlive the call; the kernel writes to both, and at most
    // `code_size` bytes to `code`.
    unsafe {
        crate::raw::call(
            crate::raw::nr::BPF,
            crate::raw::args![BPF_OBJ_GET_INFO_BY_FD, &raw mut query, size_of::<Query>()],
        )
    }?;
    let is_the_type = info.program_type == BPF_PROG_TYPE_CGROUP_DEVICE;
    Ok(is_the_type && info.code_size == size && code == program)
}
