//! Loaded device programs, pinned on a bpf file system of the cache.
//!
//! Opening a pinned program takes two system calls. If the program were loaded again, the kernel would have to verify
//! and translate it. A pin's name is a hash, which need not be unique. So the instructions of the pinned program, which
//! the kernel returns, are compared with those of the requested one.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use sys::Context;
use sys::bpf::{Instruction, get_pinned, pin};
use sys::bpf_info::is_device_program;
use sys::bpf_pin::get_pinned_at;

use crate::cache::directory::{proc_path, subdirectory};
use crate::cache::entries::{Bound, trim};
use crate::cache::hash::hash;
use crate::cache::mounts::{self, Lock, mounted};
use crate::cache::{Cache, Error};

/// The mount point of the bpf file system.
const MOUNT: &str = "bpf";
/// The directory on the bpf file system that contains the pins. The root of the file system contains entries created by
/// the kernel (CONFIG_BPF_PRELOAD).
const DIRECTORY: &str = "device";
/// The limit for cached programs. Pins have no size.
const BOUND: Bound = Bound { entries: 32, left: 32, bytes: None };

impl Cache {
    /// Returns the loaded device program with these instructions, from the cache (two system calls) if it contains one.
    /// Otherwise calls `load` and caches the result; a failure to cache it is ignored.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn device_program<E>(
        &self,
        program: &[Instruction],
        load: impl FnOnce() -> Result<OwnedFd, E>,
    ) -> Result<OwnedFd, E> {
        let name = name(program);
        let path = format!("{}/{MOUNT}/{DIRECTORY}/{name}", mounts::DIRECTORY);
        if let Ok(kept) = get(self.fd(), &path, program) {
            return Ok(kept);
        }
        let loaded = load()?;
        let _ = self.try_lock().and_then(|lock| keep(&lock, &name, program, &loaded));
        Ok(loaded)
    }
}

/// Returns a hash of the program, which need not be unique.
fn name(program: &[Instruction]) -> String {
    let key = program.iter().fold(0, |key, instruction| {
        let Instruction { code, registers, offset, immediate } = *instruction;
        let [offset_0, offset_1] = offset.to_le_bytes();
        let [i0, i1, i2, i3] = immediate.to_le_bytes();
        hash(key, &[code, registers, offset_0, offset_1, i0, i1, i2, i3])
    });
    format!("{key:016x}")
}

/// Opens the program pinned at `path`, if its instructions are those of `program`.
fn get(cache: BorrowedFd<'_>, path: &str, program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let relative = CString::new(path).map_err(|_| Errno::INVAL)?;
    let pinned = match get_pinned_at(cache, &relative) {
        // The kernel is older than Linux 6.5.
        Err(Errno::INVAL) => get_pinned(&path_from(cache, path)?)?,
        result => result?,
    };
    if is_device_program(pinned.as_fd(), program)? { Ok(pinned) } else { Err(Errno::NOENT) }
}

/// Pins `loaded`. Does nothing if the kernel returns instructions other than `program`'s: such a pin could not be used
/// later.
fn keep(
    lock: &Lock<'_>,
    name: &str,
    program: &[Instruction],
    loaded: &OwnedFd,
) -> Result<(), Error> {
    if !is_device_program(loaded.as_fd(), program).context("bpf", "BPF_OBJ_GET_INFO_BY_FD")? {
        return Ok(());
    }
    let mount = mounted(lock.mounts()?.as_fd(), MOUNT, "bpf", c"mode=0700")?;
    let directory = subdirectory(mount.as_fd(), DIRECTORY).context("open", DIRECTORY)?;
    let directory = directory.as_fd();
    let pin = || path_from(directory, name).and_then(|path| pin(&path, loaded.as_fd()));
    match pin() {
        Err(Errno::EXIST) => {
            // The name belongs to another program with the same hash, or to something that is not a device program.
            unlinkat(directory, name, AtFlags::empty()).context("unlink", name)?;
            pin()
        }
        result => result,
    }
    .context("bpf", format_args!("BPF_OBJ_PIN {name}"))?;
    Ok(trim(directory, BOUND).context("trim", DIRECTORY)?)
}

/// Returns `path` in `directory` as an absolute path through /proc/self/fd, for system calls that accept no directory
/// descriptor.
fn path_from(directory: BorrowedFd<'_>, path: &str) -> Result<CString, Errno> {
    CString::new(format!("{}/{path}", proc_path(directory))).map_err(|_| Errno::INVAL)
}
