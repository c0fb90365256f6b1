//! Pid files, written atomically.

use alloc::format;
use core::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fstat, openat, rename, renameat_with,
    statat, unlink,
};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::Context;

/// The last pid that this process has written to a pid file; 0 if none. A command writes one such file.
static WRITTEN: AtomicI32 = AtomicI32::new(0);

/// Writes the pid to a temporary file in the same directory and renames that file to `path`, so that a reader never
/// sees an incomplete number. If `path` is a special file, such as a FIFO or /dev/null, writes to it instead.
pub(crate) fn write(path: &str, pid: Pid) -> Result<(), sys::Error> {
    let (directory, name) = match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name),
        None => (Default::default(), path),
    };
    let temporary = format!("{directory}.{name}");
    let written = write_beside(&temporary, pid).and_then(|()| put_in_place(&temporary, path, pid));
    match &written {
        Ok(()) => WRITTEN.store(pid.as_raw_nonzero().get(), Ordering::Relaxed),
        Err(_) => discard(&temporary),
    }
    written
}

fn put_in_place(temporary: &str, path: &str, pid: Pid) -> Result<(), sys::Error> {
    // If `path` does not exist, this single call suffices. Old file systems, and seccomp filters that apply to dayfly,
    // may refuse the call.
    if renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE).is_ok() {
        return Ok(());
    }
    let there = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    match there.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(kind) if kind.is_fifo() || kind.is_char_device() || kind.is_socket() => {
            discard(temporary);
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let file = openat(CWD, path, flags | OFlags::NOFOLLOW, Mode::empty())
                .context("open pid file", path)?;
            sys::stdio::write_all(file, text(pid).as_bytes()).context("write pid file", path)
        }
        _ => rename(temporary, path).context("rename pid file", path),
    }
}

fn text(pid: Pid) -> alloc::string::String {
    format!("{}", pid.as_raw_nonzero())
}

fn write_beside(temporary: &str, pid: Pid) -> Result<(), sys::Error> {
    // O_EXCL: a link created by another user would redirect the pid into another file.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let create = || openat(CWD, temporary, flags, Mode::from_raw_mode(0o666));
    let file = match create() {
        // A killed command has left this temporary file.
        Err(Errno::EXIST) => {
            discard(temporary);
            create()
        }
        result => result,
    }
    .context("create pid file", temporary)?;
    sys::stdio::write_all(file, text(pid).as_bytes()).context("write pid file", temporary)
}

fn discard(temporary: &str) {
    let _ = unlink(temporary);
}

/// Removes the pid file of a failed launch if this command has written it. A file that the caller created stays.
pub(crate) fn remove(path: Option<&str>) {
    if let Some(path) = path.filter(|path| is_ours(path)) {
        discard(path);
    }
}

fn is_ours(path: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(CWD, path, flags, Mode::empty()) else { return false };
    if !fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) {
        return false;
    }
    let mut bytes = [0; 16];
    let Ok(length) = rustix::io::read(&file, &mut bytes) else { return false };
    let number = core::str::from_utf8(bytes.get(..length).unwrap_or_default());
    let number = number.ok().and_then(|number| number.parse::<i32>().ok());
    number.is_some_and(|number| number > 0 && number == WRITTEN.load(Ordering::Relaxed))
}
