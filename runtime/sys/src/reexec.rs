//! Replaces the mappings of the running program's file by mappings of the same file through another mount.
//!
//! The result is the same as after execve(2) on the descriptor, but without a new address space: every mapping of the
//! old file is replaced in place by the same bytes, then PR_SET_MM_MAP changes /proc/PID/exe. The kernel refuses this
//! change while any part of the old file is mapped, so success proves that no such mapping is left.

use alloc_crate::format;
use core::ffi::c_void;
use core::fmt;
use core::mem::MaybeUninit;
use core::{ptr, slice};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::{PrctlMmMap, configure_virtual_memory_map};

use crate::mount::{MountAttr, attr, mount_setattr};
use crate::start::Args;

/// The file that this process runs, known by its device and inode; displayed as both in hexadecimal.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    device: u64,
    inode: u64,
}

impl Running {
    /// Finds the file.
    ///
    /// # Errors
    /// ENOENT if /proc is not mounted.
    pub fn find() -> Result<Self, Errno> {
        let own = stat(c"/proc/self/exe")?;
        Ok(Self { device: own.st_dev, inode: own.st_ino })
    }

    /// Opens `path`, if it is this file.
    ///
    /// # Errors
    /// ESTALE if it is another file; those of openat(2).
    pub fn open(self, at: BorrowedFd<'_>, path: &str) -> Result<OwnProgram, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(at, path, flags, Mode::empty())?;
        let found = fstat(&file)?;
        match (found.st_dev, found.st_ino) == (self.device, self.inode) {
            true => Ok(OwnProgram(file)),
            false => Err(Errno::STALE),
        }
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)
    }
}

/// A descriptor of the file that this process runs, through any mount.
#[derive(Debug)]
pub struct OwnProgram(OwnedFd);

impl AsFd for OwnProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl OwnProgram {
    /// Makes this process run from this descriptor from now on: maps the program anew from it, and makes
    /// /proc/self/exe refer to it. This takes a third of the time of a second execve(2), which would replace the address
    /// space and repeat everything that the program has done so far.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE in the user namespace, EINVAL if the kernel is built
    /// without CONFIG_CHECKPOINT_RESTORE, ENOEXEC if the program is not a static executable at a fixed address, or was
    /// not started by [`entry`](crate::entry!). After an error, the program runs on as before.
    pub fn run(&self, args: Args) -> Result<(), Errno> {
        // A program that this crate has started has one thread.
        if args.iter().next().is_none() {
            return Err(Errno::NOEXEC);
        }
        // SAFETY: the file is the running one, which cannot be written to while it runs. The caller has no children that
        // share its memory: those are made only by unsafe functions.
        unsafe { remap(self.as_fd(), args) }
    }
}

/// A detached read-only copy of the mount of the file that this process runs; contains this file only.
#[derive(Debug)]
pub struct ReadOnlyMount(OwnedFd);

impl ReadOnlyMount {
    /// Makes the copy (open_tree(2), Linux 5.2; mount_setattr(2), Linux 5.12).
    ///
    /// # Errors
    /// Those of both.
    pub fn make() -> Result<Self, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, c"/proc/self/exe", flags)?;
        let readonly = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
        mount_setattr(tree.as_fd(), false, &readonly)?;
        Ok(Self(tree))
    }

    /// Opens the file on this mount.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn program(&self) -> Result<OwnProgram, Errno> {
        // The descriptor of open_tree(2) names the file without opening it.
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(OwnProgram)
    }
}

impl From<ReadOnlyMount> for OwnedFd {
    fn from(mount: ReadOnlyMount) -> Self {
        mount.0
    }
}

/// `Elf64_Ehdr` up to the last field read (elf(5)).
#[repr(C)]
struct Header {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    segments: usize,
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
    address: usize,
    physical: u64,
    in_file: usize,
    in_memory: usize,
    _align: u64,
}

const ET_EXEC: u16 = 2;
const PT_LOAD: u32 = 1;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
/// The maximum size in bytes of writable data that is preserved when the image is mapped anew, on kernels with small
/// and with large pages. dayfly has less writable data.
const KEPT: [usize; 2] = [8192, 2 * 65536];

unsafe extern "C" {
    /// The address of the ELF header, set by the linker.
    static __ehdr_start: Header;
}

/// Maps the program anew from `file`, and makes /proc/self/exe refer to `file`.
///
/// # Safety
/// `file` must be the file that this process runs, through any mount. The process must have one thread and no child
/// that shares its memory.
unsafe fn remap(file: BorrowedFd<'_>, args: Args) -> Result<(), Errno> {
    // This pointer is also used to read the program headers, which lie outside `Header`.
    let first =
        ptr::with_exposed_provenance::<Header>((&raw const __ehdr_start).expose_provenance());
    // SAFETY: the linker places the header at this address, and it is never written.
    let header = unsafe { &*first };
    if header.kind != ET_EXEC || usize::from(header.segment_size) != size_of::<Segment>() {
        return Err(Errno::NOEXEC);
    }
    // SAFETY: the program headers follow in the first segment, which is mapped as a whole.
    let segments: &[Segment] = unsafe {
        let first = first.byte_add(header.segments).cast();
        slice::from_raw_parts(first, header.segment_count.into())
    };
    let (mut data, mut end) = (0, 0);
    for segment in segments.iter().filter(|segment| segment.kind == PT_LOAD) {
        // Only relocations write to the RELRO segment, and a program at a fixed address has none.
        let constant = segments
            .iter()
            .any(|relro| relro.kind == PT_GNU_RELRO && relro.address == segment.address);
        // SAFETY: the caller's contract.
        unsafe { segment.remap(file, constant || segment.flags & PF_W == 0)? };
        data = segment.address as u64;
        end = (segment.address + segment.in_memory) as u64;
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
    // SAFETY: the kernel uses the addresses only to report them, as in /proc/PID.
    unsafe { configure_virtual_memory_map(&map) }
}

impl Segment {
    /// Replaces the segment's mapping of the old file, keeping its bytes.
    ///
    /// # Safety
    /// As [`remap`].
    unsafe fn remap(&self, file: BorrowedFd<'_>, constant: bool) -> Result<(), Errno> {
        // Rounds to pages, as the kernel does, because the page size may be smaller than the segment's alignment.
        let page = crate::start::page_size();
        let before = self.address % page;
        let length = (before + self.in_file).next_multiple_of(page);
        let start = ptr::with_exposed_provenance_mut::<c_void>(self.address - before);
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, !constant);
        protection.set(ProtFlags::EXEC, self.flags & PF_X != 0);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the same bytes are mapped at the same place.
        unsafe {
            match length {
                _ if constant => {
                    mmap(start, length, protection, flags, file, self.offset - before as u64)
                        .map(drop)
                }
                _ if length <= KEPT[0] => renew::<{ KEPT[0] }>(start, length, protection),
                _ => renew::<{ KEPT[1] }>(start, length, protection),
            }
        }
    }
}

/// Replaces up to `KEPT` bytes of writable data by anonymous pages with the same contents. Each value of `KEPT` has a
/// separate function, because a function touches all pages of its stack frame.
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
    // SAFETY: the variables in this memory are restored before anything reads them; the stack lies elsewhere.
    unsafe {
        kept.copy_from_nonoverlapping(start.cast(), length);
        mmap_anonymous(start, length, protection, MapFlags::PRIVATE | MapFlags::FIXED)?;
        start.cast::<u8>().copy_from_nonoverlapping(kept, length);
    }
    Ok(())
}
