//! The running program's own image, mapped anew from another descriptor of its file.
//!
//! What execve(2) of the same file would come to, without a new address space: every mapping of the old
//! descriptor is replaced where it stands, by the same bytes, and then the kernel is told what
//! /proc/PID/exe is (PR_SET_MM_MAP). It refuses while anything of the old file is mapped, so that
//! success proves that nothing of it is left.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::{ptr, slice};

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::process::{PrctlMmMap, configure_virtual_memory_map};

use crate::start::Args;

/// `Elf64_Ehdr` up to what is read of it (elf(5)).
#[repr(C)]
struct Header {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    segments: u64,
    sections: u64,
    flags: u32,
    size: u16,
    segment_size: u16,
    segment_count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    in_file: u64,
    in_memory: u64,
    _align: u64,
}

const ET_EXEC: u16 = 2;
const PT_LOAD: u32 = 1;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
/// Bytes of variables that can be kept over the change, with small pages and with large ones: more would mean a
/// larger program than ours.
const KEPT: [usize; 2] = [8192, 2 * 65536];

unsafe extern "C" {
    /// Where the linker has put the file's header in memory.
    static __ehdr_start: Header;
}

/// Maps the program anew from `file` and makes that what /proc/self/exe leads to.
///
/// # Safety
/// `file` must be the one that this process runs, through whatever mount, and the process have one
/// thread and no child in its memory.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE in the user namespace, EINVAL if the kernel is built
/// without CONFIG_CHECKPOINT_RESTORE, ENOEXEC if this is not a static executable at a fixed address. The
/// program runs on as before.
pub unsafe fn remap(file: BorrowedFd<'_>, args: Args) -> Result<(), Errno> {
    // More than the header is read from there on.
    let first =
        ptr::with_exposed_provenance::<Header>((&raw const __ehdr_start).expose_provenance());
    // SAFETY: the linker's, and never written.
    let header = unsafe { &*first };
    if header.kind != ET_EXEC || usize::from(header.segment_size) != size_of::<Segment>() {
        return Err(Errno::NOEXEC);
    }
    // SAFETY: they follow in the first segment, which is mapped as a whole.
    let segments: &[Segment] = unsafe {
        let first = first.byte_add(header.segments as usize).cast();
        slice::from_raw_parts(first, header.segment_count.into())
    };
    let (mut data, mut end) = (0, 0);
    for segment in segments.iter().filter(|segment| segment.kind == PT_LOAD) {
        // Relocations alone write there, and a program at a fixed address has none.
        let constant = segments
            .iter()
            .any(|relro| relro.kind == PT_GNU_RELRO && relro.address == segment.address);
        // SAFETY: the caller's.
        unsafe { segment.remap(file, constant || segment.flags & PF_W == 0)? };
        data = segment.address;
        end = segment.address + segment.in_memory;
    }
    let (arguments, environment) = args.ranges();
    let code = first.addr() as u64;
    let map = PrctlMmMap {
        start_code: code,
        end_code: data,
        start_data: data,
        end_data: end,
        start_brk: end + 1,
        brk: end + 1,
        start_stack: arguments.start,
        arg_start: arguments.start,
        arg_end: arguments.end,
        env_start: environment.start,
        env_end: environment.end,
        auxv: ptr::null_mut(),
        auxv_size: 0,
        exe_fd: file.as_raw_fd(),
    };
    // SAFETY: the addresses only tell others where things are.
    unsafe { configure_virtual_memory_map(&map) }
}

impl Segment {
    /// Replaces the segment's mapping of its file, keeping its bytes.
    ///
    /// # Safety
    /// As [`remap`].
    unsafe fn remap(&self, file: BorrowedFd<'_>, constant: bool) -> Result<(), Errno> {
        // As the kernel did it: by pages, which may be smaller than what the segment is aligned to.
        let page = crate::start::page_size() as u64;
        let before = self.address % page;
        let length = (before + self.in_file).next_multiple_of(page) as usize;
        let start = ptr::with_exposed_provenance_mut::<c_void>((self.address - before) as usize);
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, !constant);
        protection.set(ProtFlags::EXEC, self.flags & PF_X != 0);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the same bytes come to the same place.
        unsafe {
            match length {
                _ if constant => {
                    mmap(start, length, protection, flags, file, self.offset - before).map(drop)
                }
                _ if length <= KEPT[0] => renew::<{ KEPT[0] }>(start, length, protection),
                _ => renew::<{ KEPT[1] }>(start, length, protection),
            }
        }
    }
}

/// Gives up to `KEPT` bytes of variables pages without a file. A function of its own for each size: a frame is
/// touched from one end to the other.
///
/// # Safety
/// As [`remap`].
#[inline(never)]
unsafe fn renew<const KEPT: usize>(
    start: *mut c_void,
    length: usize,
    protection: ProtFlags,
) -> Result<(), Errno> {
    let mut kept = [MaybeUninit::<u8>::uninit(); KEPT];
    let kept = kept.get_mut(..length).ok_or(Errno::NOMEM)?.as_mut_ptr().cast::<u8>();
    // SAFETY: variables are put back before anybody reads one; the stack is none of them.
    unsafe {
        kept.copy_from_nonoverlapping(start.cast(), length);
        mmap_anonymous(start, length, protection, MapFlags::PRIVATE | MapFlags::FIXED)?;
        start.cast::<u8>().copy_from_nonoverlapping(kept, length);
    }
    Ok(())
}
