//! The log of a detached container: a file to which the container's processes write directly.
//!
//! The file is on its own tmpfs, which is attached in the container's directory. The tmpfs bounds the size: further
//! writes fail with ENOSPC. The tmpfs's memory is charged to the container, and the tmpfs is removed with the
//! container. Root of a user namespace cannot make a mount that processes outside see. For such a caller, the log is an
//! ordinary file in the container's directory, whose size is bounded as described in `bound.rs`.
//!
//! The command's own streams lead to the log only during the launch: errors before and after it go to the caller. A
//! program that opens /dev/stdout with O_TRUNC truncates the log. An append-only inode would prevent this, but `echo
//! >/dev/stderr` would fail.
//!
//! Four alternatives were rejected. A pipe blocks its writer if nobody reads. A file on the disk has no limit.
//! RLIMIT_FSIZE limits every other file as well. A memfd with F_SEAL_GROW has a fixed size from its beginning, and a
//! process would have to hold it.

mod bound;

use alloc::format;
use alloc::string::String;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, SeekFrom, fchown, fstat, mkdirat, openat, seek};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pread, read};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MoveMountFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, move_mount,
};
use rustix::process::{Gid, Uid};
use sys::Context;
use sys::mount::MountAttrFlags;
use sys::stdio::{stderr, stdin, stdout, write_all};

use crate::directory::{LOG, path_in};
use crate::{Container, Error, Warn};

/// The log, in [`LOG`].
const FILE: &str = "log/output";
/// The number of bytes that are read at once.
const PIECE: usize = 16384;

/// Redirects the standard streams of this process until this value is dropped: standard input is empty, and the output
/// goes to a container's log. Processes created meanwhile inherit these streams.
#[derive(Debug)]
pub(crate) struct Redirected {
    saved: [OwnedFd; 3],
}

impl Redirected {
    /// Creates a log of at most `size` bytes in a container's directory, and redirects the standard streams. `owner` is
    /// the log's uid and gid on the host.
    pub fn begin(
        directory: BorrowedFd<'_>,
        size: u64,
        owner: Option<(u32, u32)>,
        warn: Warn<'_>,
    ) -> Result<Self, sys::Error> {
        let log = make(directory, size, warn)?;
        if let Some((uid, gid)) = owner {
            // Allows the container's root to open /dev/stdout.
            fchown(&log, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
                .context("chown", FILE)?;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let null = openat(CWD, c"/dev/null", flags, Mode::empty()).context("open", "/dev/null")?;
        let keep = |stream| fcntl_dupfd_cloexec(stream, 3).context("dup", "standard stream");
        let redirected = Self { saved: [keep(stdin())?, keep(stdout())?, keep(stderr())?] };
        let put = |stream, file: &OwnedFd| sys::stdio::replace(stream, file.as_fd());
        put(stdin(), &null)
            .and_then(|()| put(stdout(), &log))
            .and_then(|()| put(stderr(), &log))
            .context("dup2", FILE)?;
        Ok(redirected)
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        for (stream, saved) in [stdin(), stdout(), stderr()].into_iter().zip(&self.saved) {
            let _ = sys::stdio::replace(stream, saved.as_fd());
        }
    }
}

fn make(directory: BorrowedFd<'_>, size: u64, warn: Warn<'_>) -> Result<OwnedFd, sys::Error> {
    mkdirat(directory, LOG, Mode::RWXU).context("mkdir", LOG)?;
    // A mount made by root of a user namespace is visible in the caller's own mount namespace only.
    let attached = match sys::user_namespace::is_nested() {
        true => Err(Errno::PERM),
        false => attach(directory, size),
    };
    let has_tmpfs = match attached {
        Ok(()) => true,
        Err(Errno::PERM | Errno::NOSYS) => false,
        Err(errno) => return Err(sys::Error::new("mount", "tmpfs of the log", errno)),
    };
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    let log = openat(directory, FILE, flags, Mode::RUSR | Mode::WUSR).context("create", FILE)?;
    if !has_tmpfs && let Err(errno) = bound::bound(directory, &log, size) {
        (warn.print)(&format!(
            "the size of the log is not limited: {} (docs/rootless.md)",
            why(errno)
        ));
    }
    Ok(log)
}

/// Describes why the size of a log without a tmpfs of its own cannot be bounded.
fn why(errno: Errno) -> String {
    match errno {
        Errno::OPNOTSUPP => {
            "without root, the state directory must be on tmpfs, ext4, XFS or Btrfs".into()
        }
        Errno::FBIG => "the caller has a limit on file sizes (ulimit -f)".into(),
        errno => format!("ftruncate: {}", sys::errno::describe(errno)),
    }
}

fn attach(directory: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, c"source", c"dayfly")?;
    fsconfig_set_string(&context, c"mode", c"0700")?;
    fsconfig_set_string(&context, c"size", format!("{size}"))?;
    fsconfig_set_string(&context, c"nr_inodes", c"8")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, c"", directory, LOG, flags)
}

impl Container {
    /// Writes the container's output to standard output: all of it, or the last `tail` lines. With `follow`, also
    /// writes further output until the program has ended.
    ///
    /// # Errors
    /// If the container has no log, or if standard output cannot be written to.
    pub fn print_log(&self, tail: Option<u64>, follow: bool) -> Result<(), Error> {
        let log = self.open_log()?;
        // The watch begins before the first read, so that no output is missed.
        let watch = if follow { Some(self.watch_log()?) } else { None };
        let start = bound::start(self.directory.as_fd());
        let mut at = match tail {
            Some(lines) => beginning_of_tail(&log, lines, start).context("read", FILE)?,
            None => start,
        };
        let init = if follow { self.init() } else { None };
        let mut has_ended = init.is_none();
        loop {
            copy(&log, &mut at).context("write", "standard output")?;
            let (false, Some(watch), Some((_, init))) = (has_ended, &watch, &init) else {
                return Ok(());
            };
            let mut fds = [PollFd::new(watch, PollFlags::IN), PollFd::new(init, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                result => result.context("poll", FILE)?,
            };
            has_ended = !fds[1].revents().is_empty();
            if has_ended {
                self.note_end();
            }
            let mut events = [0u8; 4096];
            while read(watch, &mut events).is_ok_and(|length| length > 0) {}
        }
    }

    fn open_log(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let log = match openat(&self.directory, FILE, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                return Err(Error::Text(format!(
                    "container {} has no log here: \"dayfly run -d --image\" makes one, which is seen in the mount \
                     namespace that it was made in",
                    self.id()
                )));
            }
            result => result.context("open", FILE)?,
        };
        let stat = fstat(&log).context("fstat", FILE)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(log),
            _ => Err(sys::Error::new("open", FILE, Errno::INVAL).into()),
        }
    }

    fn watch_log(&self) -> Result<OwnedFd, Error> {
        let watch =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).context("inotify", FILE)?;
        let path = path_in(self.directory.as_fd(), FILE);
        inotify::add_watch(&watch, path.as_str(), WatchFlags::MODIFY).context("inotify", FILE)?;
        Ok(watch)
    }
}

/// Copies a log to standard output: from the offset `at` to the end, or from the beginning if the log was truncated (a
/// shell's `>/dev/stdout`).
fn copy(log: &OwnedFd, at: &mut u64) -> Result<(), Errno> {
    if fstat(log)?.st_size.unsigned_abs() < *at {
        *at = 0;
    }
    let mut bytes = [0u8; PIECE];
    loop {
        // A program can give the file any length by making holes, which occupy no space on the tmpfs. So holes are
        // skipped.
        match seek(log, SeekFrom::Data(*at)) {
            Ok(data) => *at = data,
            Err(Errno::NXIO) if bound::is_at_the_end(*at) => {}
            Err(Errno::NXIO) => {
                *at = (*at).max(fstat(log)?.st_size.unsigned_abs());
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
        let room = bytes.get_mut(..bound::readable(*at, PIECE)).unwrap_or_default();
        match pread(log, room, *at) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                write_all(stdout(), bytes.get(..length).unwrap_or_default())?;
                *at += length as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Returns the offset at which the last `lines` lines of the output begin. The output itself begins at `start`, or at 0
/// if the file is shorter than `start`.
fn beginning_of_tail(log: &OwnedFd, lines: u64, start: u64) -> Result<u64, Errno> {
    let stat = fstat(log)?;
    let end = stat.st_size.unsigned_abs();
    if lines == 0 {
        return Ok(end);
    }
    // Searches no more bytes than the file occupies on the file system (st_blocks): the rest are holes, possibly
    // exabytes of them.
    let blocks = stat.st_blocks.unsigned_abs().saturating_mul(512).saturating_add(PIECE as u64);
    let first = end.saturating_sub(blocks).max(if start <= end { start } else { 0 });
    let mut left = lines;
    let mut before = end;
    let mut bytes = [0u8; PIECE];
    while before > first {
        let start = before.saturating_sub(PIECE as u64).max(first);
        let length = usize::try_from(before - start).unwrap_or(PIECE);
        let room = bytes.get_mut(..length).unwrap_or_default();
        let length = pread(log, &mut *room, start)?;
        for (place, byte) in room.get(..length).unwrap_or_default().iter().enumerate().rev() {
            let after = start + place as u64 + 1;
            // The newline at the end of the file does not begin another line.
            if *byte != b'\n' || after == end {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(after);
            }
        }
        before = start;
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails() {
        let path = std::env::temp_dir().join(format!("dayfly-tail-{}", std::process::id()));
        for (text, lines, rest) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 2, "a\nb\n"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\nb\n", 0, ""),
            ("\n\n", 1, "\n"),
            ("", 3, ""),
        ] {
            std::fs::write(&path, text).unwrap();
            let log = openat(CWD, &path, OFlags::RDONLY, Mode::empty()).unwrap();
            let at = usize::try_from(beginning_of_tail(&log, lines, 0).unwrap()).unwrap();
            assert_eq!(&text[at..], rest, "{text:?} {lines}");
        }
        let long = "x\n".repeat(20_000);
        std::fs::write(&path, &long).unwrap();
        let log = openat(CWD, &path, OFlags::RDONLY, Mode::empty()).unwrap();
        assert_eq!(beginning_of_tail(&log, 10_000, 0).unwrap(), 20_000);
        assert_eq!(beginning_of_tail(&log, 30_000, 39_996).unwrap(), 39_996);
        assert_eq!(beginning_of_tail(&log, 1, 50_000).unwrap(), 39_998);
        std::fs::remove_file(path).unwrap();
    }
}
