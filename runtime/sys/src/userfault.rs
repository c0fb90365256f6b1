//! userfaultfd(2): provides the pages of another process when it accesses them.
//!
//! The other process registers its memory, and hands over the descriptor. A page that is missing there stops the thread
//! that accesses it, until the page is copied to the process. If the last descriptor is closed, missing pages are filled
//! with zeros, as those of other memory.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::{Errno, read};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::raw::{address, args, call, nr};

#[cfg(test)]
mod tests;

const UFFDIO_API: usize = 0xc018_aa3f;
const UFFDIO_WAKE: usize = 0x8010_aa02;
const UFFDIO_COPY: usize = 0xc028_aa03;
const UFFDIO_ZEROPAGE: usize = 0xc020_aa04;
const API: u64 = 0xaa;
/// The features by which fork(2), mremap(2), madvise(2) and munmap(2) of the process are reported (Linux 4.11).
const EVENTS: u64 = 0b100_1110;
/// The size of `struct uffd_msg`.
const MESSAGE: usize = 32;

/// What a process has done with its registered memory. It waits until all its events have been read.
#[derive(Debug)]
pub enum Event {
    /// A thread waits for the page with this address.
    Fault(u64),
    /// The process has forked; the descriptor is that of the child's memory.
    Fork(OwnedFd),
    /// `len` bytes were moved.
    Moved {
        /// The former address.
        from: u64,
        /// The new address.
        to: u64,
        /// The length in bytes.
        len: u64,
    },
    /// The pages from the first to the second address were given up.
    Discarded(u64, u64),
    /// The memory from the first to the second address was unmapped. The former place of memory that was moved is
    /// unmapped, too, unless the process has kept it (MREMAP_DONTUNMAP).
    Unmapped(u64, u64),
}

/// Returns whether this kernel has userfaultfd(2) with all events.
pub fn is_supported() -> bool {
    const FLAGS: usize = 0o2_004_000;
    // SAFETY: no pointers; the kernel returns a new descriptor.
    let fd = unsafe { call(nr::USERFAULTFD, [FLAGS]).map(|fd| crate::raw::new_fd(fd)) };
    fd.is_ok_and(|fd| control(&fd, UFFDIO_API, &mut [API, EVENTS, 0]).is_ok())
}

/// Issues an ioctl(2) whose argument is a structure of 64-bit fields.
fn control<const N: usize>(
    fd: &impl AsRawFd,
    request: usize,
    fields: &mut [u64; N],
) -> Result<(), Errno> {
    // SAFETY: the kernel reads and writes at most the structure of this request, which has N fields; addresses in it
    // are checked by the kernel, which only reads from the own ones.
    unsafe { call(nr::IOCTL, args![fd.as_raw_fd(), request, fields.as_mut_ptr()]) }.map(drop)
}

/// Does a request that counts the bytes it has processed in the last field. Returns this number, and the error of the
/// page after them.
fn counted<const N: usize>(
    fd: BorrowedFd<'_>,
    request: usize,
    mut fields: [u64; N],
) -> (u64, Result<(), Errno>) {
    let result = control(&fd, request, &mut fields);
    let count = fields.last().map_or(0, |count| count.cast_signed());
    (u64::try_from(count).unwrap_or(0), result)
}

/// Copies a part of a file to missing pages of the process, and wakes the threads that wait for them. Returns the number
/// of bytes that were copied, and an error: if some were copied, EAGAIN, whatever the reason is why not all were.
///
/// The errors are EEXIST for a page that is present, ENOENT for memory that is not registered or lies in several mappings,
/// EAGAIN if an event must be read first, ESRCH if the process has exited, and EFAULT if the file is shorter or cannot be
/// read.
pub fn copy(
    fd: BorrowedFd<'_>,
    to: u64,
    file: &Mapped,
    offset: u64,
    len: u64,
) -> (u64, Result<(), Errno>) {
    if offset.checked_add(len).is_none_or(|end| end > file.len) {
        return (0, Err(Errno::FAULT));
    }
    counted(fd, UFFDIO_COPY, [to, file.address + offset, len, 0, 0])
}

/// Fills missing pages of the process with zeros, as [`copy`] does with those of a file.
pub fn zero(fd: BorrowedFd<'_>, at: u64, len: u64) -> (u64, Result<(), Errno>) {
    counted(fd, UFFDIO_ZEROPAGE, [at, len, 0, 0])
}

/// Wakes the threads that wait for a page.
///
/// # Errors
/// Those of ioctl(2).
pub fn wake(fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<(), Errno> {
    control(&fd, UFFDIO_WAKE, &mut [at, len])
}

/// Reads the next event, without waiting.
///
/// # Errors
/// EAGAIN if there is none.
pub fn event(fd: BorrowedFd<'_>) -> Result<Event, Errno> {
    let mut message = [0_u64; MESSAGE / 8];
    let mut bytes = [0; MESSAGE];
    if read(fd, &mut bytes)? != MESSAGE {
        return Err(Errno::INVAL);
    }
    let (words, _) = bytes.as_chunks::<8>();
    for (field, word) in message.iter_mut().zip(words) {
        *field = u64::from_ne_bytes(*word);
    }
    let [_, first, second, third] = message;
    match bytes.first() {
        Some(0x12) => Ok(Event::Fault(second)),
        Some(0x13) => {
            let [number, _] = crate::raw::halves(first);
            // SAFETY: the kernel has put a new descriptor into this process.
            Ok(Event::Fork(unsafe { crate::raw::new_fd(number as usize) }))
        }
        Some(0x14) => Ok(Event::Moved { from: first, to: second, len: third }),
        Some(0x15) => Ok(Event::Discarded(first, second)),
        Some(0x16) => Ok(Event::Unmapped(first, second)),
        _ => Err(Errno::INVAL),
    }
}

/// A file that is mapped for [`copy`], for as long as this process exists.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    address: u64,
    len: u64,
}

impl Mapped {
    /// Maps a whole file.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(file: &OwnedFd) -> Result<Self, Errno> {
        let size = fstat(file)?.st_size;
        let len = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        // SAFETY: a new mapping, at an address of the kernel's choice, which this process itself does not access.
        let start = unsafe {
            mmap(core::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)?
        };
        Ok(Self { address: address(start.cast_const()), len: len as u64 })
    }
}
