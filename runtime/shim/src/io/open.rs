//! Opens the sources and sinks of streams, and creates the pipes for programs.

use alloc::string::String;
use core::ffi::CStr;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FileType, Gid, Mode, OFlags, Uid, fchown, fcntl_getfl, fcntl_setfl, mkdir, open, stat,
};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use sys::Context;

use super::carrier::Sink;
use super::held::Held;

/// The sink of a stream and, if it is a FIFO, the shim's own reader of it. While containerd has no reader open, the
/// shim's reader preserves the FIFO's contents and prevents SIGPIPE.
pub(super) type Opened = (Sink, Option<Held>);

/// Opens the existing file at `path` for writing.
///
/// # Errors
/// Those of open(2), socketpair(2) and sendmsg(2).
pub(super) fn existing(path: &CStr) -> Result<Opened, sys::Error> {
    if is_fifo(path)? {
        // The reader is opened first: without a reader, opening for writing would fail with ENXIO.
        let reader = open_at(path, OFlags::RDONLY, "open to read")?;
        let writer = open_at(path, OFlags::WRONLY, "open to write")?;
        return Ok((Sink::Flow(writer.into()), Some(Held::hold(reader)?)));
    }
    Ok((Sink::File(open_at(path, OFlags::WRONLY | OFlags::APPEND, "open to append")?), None))
}

/// Opens the file at `path` for appending. Creates it (0644) and its parent directories (0755) if they are missing. If
/// `path` is an existing FIFO, it is opened as in [`existing`].
///
/// # Errors
/// Those of open(2) and mkdir(2).
pub(super) fn file(path: &CStr) -> Result<Opened, sys::Error> {
    let object = || path.to_string_lossy();
    if let Ok(true) = is_fifo(path) {
        // Opening a FIFO like a file would block until it has a reader.
        return existing(path);
    }
    for (end, _) in path.to_bytes().iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
        let above = path.to_bytes().get(..end).unwrap_or_default();
        match mkdir(above, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            // If the directory is missing, the following open(2) fails.
            Err(Errno::ROFS | Errno::ACCESS) => {}
            Err(errno) => return Err(errno).context("mkdir", String::from_utf8_lossy(above)),
        }
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o644)).context("open to append", object())?;
    Ok((Sink::File(file), None))
}

/// Opens the source of standard input. Returns its reader and, for a FIFO, the shim's own writer. Because of this
/// writer, the stream does not end when a client closes it, but only after Task.CloseIO.
///
/// # Errors
/// Those of open(2).
pub(super) fn source(path: &CStr) -> Result<(OwnedFd, Option<OwnedFd>), sys::Error> {
    let is_fifo = is_fifo(path)?;
    let reader = open_at(path, OFlags::RDONLY, "open to read")?;
    let writer = is_fifo.then(|| open_at(path, OFlags::WRONLY, "open to write"));
    Ok((reader, writer.transpose()?))
}

/// Creates a pipe and returns its reading end and its writing end, both blocking. Only `owner` (and root) may reopen
/// the pipe.
///
/// # Errors
/// Those of pipe2(2) and fchown(2).
pub(super) fn pipe(owner: Option<(u32, u32)>) -> Result<(OwnedFd, OwnedFd), sys::Error> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).context("pipe2", "")?;
    if let Some((uid, gid)) = owner {
        fchown(&writer, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
            .context("fchown", "pipe")?;
    }
    Ok((reader, writer))
}

/// Makes the shim's end of a pipe non-blocking. The program's end is another open file description and stays blocking.
///
/// # Errors
/// Those of fcntl(2).
pub(super) fn never_wait(fd: impl AsFd) -> Result<(), sys::Error> {
    fcntl_getfl(&fd)
        .and_then(|flags| fcntl_setfl(&fd, flags | OFlags::NONBLOCK))
        .context("fcntl O_NONBLOCK", "")
}

fn is_fifo(path: &CStr) -> Result<bool, sys::Error> {
    let metadata = stat(path).context("stat", path.to_string_lossy())?;
    Ok(FileType::from_raw_mode(metadata.st_mode) == FileType::Fifo)
}

fn open_at(path: &CStr, flags: OFlags, op: &'static str) -> Result<OwnedFd, sys::Error> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).context(op, path.to_string_lossy())
}
