//! CVE-2019-5736: processes in a container must not reach a writable dayfly binary.
//!
//! /proc/PID/exe of a dayfly process visible in a container leads to the binary on the host. A container process could
//! open this link, keep the descriptor until the dayfly process has exited, then open the binary for writing through
//! /proc/self/fd, and so replace the runtime. So before a command enters a container, it ensures that its own binary is
//! on a read-only mount. If a package provides such a mount, only the check costs time. Otherwise the command makes a
//! detached read-only copy of the mount, and replaces its own mappings of the binary with mappings of the same file on
//! the copy (`sys::reexec`). If this replacement fails, the command executes itself again from the copy. If no such
//! copy can be made, the command executes itself again from a sealed memfd.

use alloc::ffi::CString;
use alloc::format;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    Access, CWD, MemfdFlags, Mode, OFlags, SealFlags, access, fcntl_add_seals, memfd_create,
    openat, sendfile,
};
use rustix::io::Errno;
use sys::defence::{Defence, is_off};
use sys::reexec::{OwnProgram, ReadOnlyMount};
use trace::{Phase, Tracer};

/// The environment variable by which a traced command passes times to itself across its re-exec: the start of the
/// program, the start of sealing, the time of exec. The times are in nanoseconds of CLOCK_MONOTONIC_RAW.
pub const SEALED: &str = "DAYFLY_SEALED";

/// Ensures that this process, which began at `entered`, runs from a file that cannot be written to. If its binary is
/// already on a read-only mount, nothing is done. Otherwise `kept` opens the binary on a read-only mount that an
/// earlier command has kept, and the process replaces its mappings of the binary with mappings of this file. If there
/// is no such file, or if the replacement fails, the process makes a new read-only mount, replaces its mappings with
/// mappings of the file on this mount, and returns the mount. If no such mount can be made, or if the mappings cannot
/// be replaced, the program executes itself again and then calls this function a second time.
///
/// # Errors
/// If no safe copy could be made.
pub fn seal_self(
    args: sys::Args,
    entered: u64,
    tracer: &Tracer,
    kept: impl FnOnce() -> Option<OwnProgram>,
) -> Result<Option<OwnedFd>, sys::Error> {
    if is_off(Defence::Seal) {
        return Ok(None);
    }
    let start = tracer.clock();
    // access(2) returns EROFS in preference to other errors, and is cheaper than statfs(2), for which ext4 adds up its
    // counters.
    if access(c"/proc/self/exe", Access::WRITE_OK) == Err(Errno::ROFS) {
        return Ok(None);
    }
    let sealed = |mount| {
        tracer.add(Phase::Security, "seal", "/proc/self/exe", (start, tracer.clock()));
        Ok(mount)
    };
    if kept().is_some_and(|program| program.run(args).is_ok()) {
        return sealed(None);
    }
    let copy = match ReadOnlyMount::make() {
        Ok(mount) if mount.program().and_then(|program| program.run(args)).is_ok() => {
            return sealed(Some(mount.into()));
        }
        Ok(mount) => mount.into(),
        // The running binary can be a memfd only if the other methods are not permitted, so this is
        // checked last.
        Err(_) if is_sealed_memfd() => return Ok(None),
        Err(_) => sealed_memfd().map_err(|errno| {
            let object = match errno {
                Errno::NOENT => "copy of /proc/self/exe (/proc is not mounted)",
                _ => "copy of /proc/self/exe",
            };
            sys::Error::new("memfd_create", object, errno)
        })?,
    };
    let left = tracer.is_on().then(|| format!("{SEALED}={entered},{start},{}", trace::now()));
    let left = left.and_then(|text| CString::new(text).ok());
    let errno = sys::exec::execve_fd(copy.as_fd(), args, left.as_deref());
    Err(sys::Error::new("execveat", "/proc/self/exe", errno))
}

const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

fn sealed_memfd() -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let own = openat(CWD, c"/proc/self/exe", flags, Mode::empty())?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let copy = memfd_create(c"dayfly", flags)?;
    while sendfile(&copy, &own, None, 1 << 22)? > 0 {}
    fcntl_add_seals(&copy, SEALS)?;
    Ok(copy)
}

/// Returns whether the binary is already a copy made by [`sealed_memfd`].
fn is_sealed_memfd() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(own) = openat(CWD, c"/proc/self/exe", flags, Mode::empty()) else { return false };
    rustix::fs::fcntl_get_seals(&own).is_ok_and(|seals| seals.contains(SEALS))
}
