//! bpf(2): the commands needed to load, attach and pin the device program of a cgroup.

use alloc_crate::vec;
use alloc_crate::vec::Vec;
use core::ffi::CStr;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::raw::address;

const BPF_PROG_LOAD: usize = 5;
const BPF_OBJ_PIN: usize = 6;
const BPF_OBJ_GET: usize = 7;
const BPF_PROG_ATTACH: usize = 8;
const BPF_PROG_DETACH: usize = 9;
const BPF_PROG_GET_FD_BY_ID: usize = 13;
const BPF_PROG_QUERY: usize = 16;

const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_F_ALLOW_MULTI: u32 = 1 << 1;
const BPF_F_REPLACE: u32 = 1 << 2;

/// `struct bpf_insn`: one eBPF instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction {
    /// Operation.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high four
    /// (little endian, which every supported architecture is).
    pub registers: u8,
    /// Jump distance in instructions, or offset of a memory access in bytes.
    pub offset: i16,
    /// Immediate operand.
    pub immediate: i32,
}

/// The head of `union bpf_attr` for BPF_PROG_LOAD. The kernel reads omitted fields as zero.
#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
}

/// The attributes of BPF_PROG_ATTACH and BPF_PROG_DETACH.
#[repr(C)]
#[derive(Default)]
struct Attach {
    target_fd: u32,
    program_fd: u32,
    attach_type: u32,
    flags: u32,
    replaced_fd: u32,
}

/// The attributes of BPF_PROG_QUERY up to and including `revision`. Newer kernels write the revision even if the size
/// that the caller passed does not include this field.
#[repr(C)]
#[derive(Default)]
struct Query {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    program_ids: u64,
    program_count: u32,
    padding: u32,
    program_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// The attributes of BPF_OBJ_PIN and BPF_OBJ_GET.
#[repr(C)]
#[derive(Default)]
struct Object {
    path: u64,
    fd: u32,
    file_flags: u32,
}

/// The attributes of BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// Issues a bpf(2) command with its attributes.
///
/// # Safety
/// `attributes` must have the layout that `command` reads, and every pointer in them must be valid for the length given
/// next to the pointer.
unsafe fn bpf<T>(command: usize, attributes: &mut T) -> Result<usize, Errno> {
    let attributes = &raw mut *attributes;
    // SAFETY: the structure is valid for its own size; the caller guarantees its pointers.
    unsafe {
        crate::raw::call(
            crate::raw::nr::BPF,
            crate::raw::args![command, attributes, size_of::<T>()],
        )
    }
}

/// Takes ownership of a descriptor that bpf(2) has just returned.
fn owned(fd: usize) -> OwnedFd {
    // SAFETY: the kernel has just returned this descriptor; it has no other owner.
    unsafe { crate::raw::new_fd(fd) }
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// Loads and verifies a program of type BPF_PROG_TYPE_CGROUP_DEVICE (Linux 4.15). The descriptor is close-on-exec.
///
/// # Errors
/// EPERM without CAP_BPF (CAP_SYS_ADMIN before 5.8); EACCES or EINVAL if the verifier refuses the program; E2BIG if the
/// program is too long.
pub fn load_device_program(program: &[Instruction], license: &CStr) -> Result<OwnedFd, Errno> {
    let mut load = Load {
        program_type: BPF_PROG_TYPE_CGROUP_DEVICE,
        instruction_count: u32::try_from(program.len()).map_err(|_| Errno::TOOBIG)?,
        instructions: address(program.as_ptr()),
        license: address(license.as_ptr()),
        ..Load::default()
    };
    // SAFETY: program and license stay valid until the call returns; the instruction count is the slice's length.
    unsafe { bpf(BPF_PROG_LOAD, &mut load) }.map(owned)
}

/// Attaches a device program to a cgroup v2 directory: in place of `replaced` if given (BPF_F_REPLACE, Linux 5.6), or
/// else in addition to other programs (BPF_F_ALLOW_MULTI). `cgroup` may be an O_PATH descriptor.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN or CAP_SYS_ADMIN, or if a program of an ancestor cgroup forbids the attachment; EINVAL
/// for `replaced` on kernels before 5.6; ENOENT if `replaced` is not attached there; EBADF if `cgroup` is not a cgroup
/// v2 directory.
pub fn attach_device_program(
    cgroup: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    replaced: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut attach = Attach {
        target_fd: number(cgroup),
        program_fd: number(program),
        attach_type: BPF_CGROUP_DEVICE,
        flags: BPF_F_ALLOW_MULTI,
        replaced_fd: 0,
    };
    if let Some(replaced) = replaced {
        attach.flags |= BPF_F_REPLACE;
        attach.replaced_fd = number(replaced);
    }
    // SAFETY: the structure holds no pointers.
    unsafe { bpf(BPF_PROG_ATTACH, &mut attach) }.map(drop)
}

/// Detaches a device program from a cgroup v2 directory.
///
/// # Errors
/// ENOENT if the program is not attached there; EPERM.
pub fn detach_device_program(cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut attach = Attach {
        target_fd: number(cgroup),
        program_fd: number(program),
        attach_type: BPF_CGROUP_DEVICE,
        ..Attach::default()
    };
    // SAFETY: the structure holds no pointers.
    unsafe { bpf(BPF_PROG_DETACH, &mut attach) }.map(drop)
}

/// Returns the ids of the device programs attached to this cgroup itself, not to its ancestors.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN or CAP_SYS_ADMIN.
pub fn query_device_programs(cgroup: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    // The kernel allows no more programs for a cgroup (BPF_CGROUP_MAX_PROGS), so one call suffices.
    const MOST: u32 = 64;
    let mut ids = vec![0u32; MOST as usize];
    let mut query = Query {
        target_fd: number(cgroup),
        attach_type: BPF_CGROUP_DEVICE,
        program_ids: address(ids.as_mut_ptr()),
        program_count: MOST,
        ..Query::default()
    };
    // SAFETY: the buffer has space for program_count ids and outlives the call.
    unsafe { bpf(BPF_PROG_QUERY, &mut query) }?;
    ids.truncate(query.program_count as usize);
    Ok(ids)
}

/// Opens a loaded program by its id.
///
/// # Errors
/// ENOENT if no such program is loaded; EPERM without CAP_SYS_ADMIN, or if a security module hides the program.
pub fn program_by_id(id: u32) -> Result<OwnedFd, Errno> {
    let mut by_id = ById { id, ..ById::default() };
    // SAFETY: the structure holds no pointers.
    unsafe { bpf(BPF_PROG_GET_FD_BY_ID, &mut by_id) }.map(owned)
}

/// Pins a program to `path` on a bpf file system. A pinned program stays loaded after its last descriptor is closed.
///
/// # Errors
/// EEXIST; EPERM if `path` is not on a bpf file system; those of path resolution.
pub fn pin(path: &CStr, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut object = Object { path: address(path.as_ptr()), fd: number(program), file_flags: 0 };
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { bpf(BPF_OBJ_PIN, &mut object) }.map(drop)
}

/// Opens a pinned program.
///
/// # Errors
/// ENOENT; EACCES if `path` is not a bpf object; EPERM.
pub fn get_pinned(path: &CStr) -> Result<OwnedFd, Errno> {
    let mut object = Object { path: address(path.as_ptr()), ..Object::default() };
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { bpf(BPF_OBJ_GET, &mut object) }.map(owned)
}
