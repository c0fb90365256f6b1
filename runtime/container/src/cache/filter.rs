//! Compiled seccomp filters, each in a file.
//!
//! A file contains its key (magic, compiler, lengths, profile, kernel support), followed by the program with its
//! checksum. A reader compares the complete key, so two profiles with the same hash never share a filter. The profile
//! need not be parsed, and comparing its 18 KB costs less than computing a cryptographic hash.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, linkat, openat, unlinkat};
use rustix::io::{Errno, IoSlice, read, writev};
use seccomp::Program;

use crate::cache::Cache;
use crate::cache::directory::{is_ours, proc_path, subdirectory};
use crate::cache::entries::{Bound, trim};
use crate::cache::hash::hash;

pub(crate) const DIRECTORY: &str = "seccomp";
/// The first eight bytes of a file. The eighth byte is the version of the file format.
const MAGIC: [u8; 8] = *b"dayfscf\x01";
/// The id of the compiler: see build.rs.
const COMPILER: &str = env!("SECCOMP_COMPILER");
/// The limits for cached filters. [`LARGEST`] limits each one's size, and so all of them to 16 MiB.
const BOUND: Bound = Bound { entries: 64, left: 48, bytes: None };
/// The maximum size of a file that is written or read, in bytes. An engine's profile with its program takes some 20 KiB.
const LARGEST: usize = 256 << 10;

/// The key of a filter. It does not contain the compiler's id, which this module adds.
#[derive(Debug, Clone, Copy)]
pub struct FilterKey<'a> {
    /// The text of the profile in config.json.
    pub profile: &'a [u8],
    /// The architecture, and the seccomp actions and flags that the kernel supports, as encoded by the caller.
    pub support: &'a [u8],
}

impl FilterKey<'_> {
    /// Returns the file's name: a hash of the key, which need not be unique.
    fn name(&self) -> String {
        let key = hash(hash(hash(0, COMPILER.as_bytes()), self.support), self.profile);
        format!("{DIRECTORY}/{key:016x}")
    }

    /// Returns the file's header: magic, compiler, lengths.
    fn header(&self) -> [[u8; 8]; 4] {
        let compiler = hash(0, COMPILER.as_bytes());
        let (profile, support) = (self.profile.len() as u64, self.support.len() as u64);
        [MAGIC, compiler.to_le_bytes(), profile.to_le_bytes(), support.to_le_bytes()]
    }

    /// Returns the program in a file with the contents `bytes`, if the file has this key and is undamaged.
    fn read(&self, bytes: &[u8]) -> Option<Program> {
        let bytes = bytes.strip_prefix(self.header().as_flattened())?;
        let bytes = bytes.strip_prefix(self.profile)?;
        let bytes = bytes.strip_prefix(self.support)?;
        let (checksum, program) = bytes.split_first_chunk()?;
        if u64::from_le_bytes(*checksum) != hash(0, program) {
            return None;
        }
        Program::from_bytes(program)
    }
}

impl Cache {
    /// Returns the filter of `key`, by four system calls. If the cache does not contain it, returns its empty place.
    ///
    /// # Errors
    /// [`Missing`]: the caller has to compile the filter, and can then keep it.
    pub fn filter<'a>(&'a self, key: FilterKey<'a>) -> Result<Program, Missing<'a>> {
        let name = key.name();
        let program = load(self.fd(), &name).and_then(|bytes| key.read(&bytes));
        program.ok_or(Missing { cache: self, key, name })
    }
}

/// The place of a filter that the cache does not contain.
#[derive(Debug)]
pub struct Missing<'a> {
    cache: &'a Cache,
    key: FilterKey<'a>,
    name: String,
}

impl Missing<'_> {
    /// Caches the compiled filter. If this fails, the next start compiles the profile again.
    pub fn keep(&self, program: &Program) {
        let _ = self.write(&program.to_bytes());
    }

    fn write(&self, program: &[u8]) -> Result<(), Errno> {
        let Self { cache, key, name } = self;
        let checksum = hash(0, program).to_le_bytes();
        let header = key.header();
        // The parts are not joined first: new memory would cost more than all of the writing.
        let parts = [header.as_flattened(), key.profile, key.support, &checksum, program];
        let length = parts.iter().map(|part| part.len()).sum();
        if length > LARGEST {
            return Err(Errno::FBIG);
        }
        let directory = subdirectory(cache.fd(), DIRECTORY)?;
        store(cache.fd(), directory.as_fd(), name, &parts.map(IoSlice::new), length)?;
        trim(directory.as_fd(), BOUND)
    }
}

/// Reads the file `name` in one go, if it belongs to root and has a plausible size.
fn load(cache: BorrowedFd<'_>, name: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(cache, name, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let size = usize::try_from(stat.st_size).ok()?;
    if !is_ours(&stat, FileType::RegularFile, Mode::RUSR | Mode::WUSR) || size > LARGEST {
        return None;
    }
    // One byte more than the size: rustix requires space to read into, even for an empty file.
    let mut bytes = Vec::with_capacity(size + 1);
    read(&file, rustix::buffer::spare_capacity(&mut bytes)).ok()?;
    (bytes.len() == size).then_some(bytes)
}

/// Writes a file of `length` bytes. The file gets its name only when it is complete. So partial files never appear, and
/// a killed writer leaves no file behind.
fn store(
    cache: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &str,
    parts: &[IoSlice<'_>],
    length: usize,
) -> Result<(), Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    let file = openat(directory, c".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode)?;
    // The umask may have removed mode bits.
    fchmod(&file, mode)?;
    // A full file system takes a part only.
    if writev(&file, parts)? < length {
        return Err(Errno::NOSPC);
    }
    let unnamed = proc_path(file.as_fd());
    match linkat(CWD, unnamed.as_str(), cache, name, AtFlags::SYMLINK_FOLLOW) {
        Err(Errno::EXIST) => {}
        result => return result,
    }
    // The existing file is unusable and is replaced. If another process creates the file between the two calls, that
    // file stays, and linkat(2) fails.
    unlinkat(cache, name, AtFlags::empty())?;
    linkat(CWD, unnamed.as_str(), cache, name, AtFlags::SYMLINK_FOLLOW)
}
