//! The exit code of a container in the background.
//!
//! No process of dayfly stays with such a container, and its init is reaped by whoever becomes its parent. From Linux
//! 6.15, the kernel keeps the exit status of a reaped process as long as its pidfd is in use. So init's pidfd is mounted
//! on a file in the container's directory, on the tmpfs of the log, with which the mount is removed. It takes no process
//! and no memory but the kernel's (mounts and inodes, about 2 KiB). On older kernels, and without root, the exit code is
//! unknown once init was reaped. The kernel does not keep the time of an exit: it is known if a command waited for it.
//!
//! A process that waits was rejected. It would have to be init's parent, so that `run` would have to fork before the
//! start, and each container would have another process, which can be killed.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::Pid;
use sys::Context;
use sys::exit_info::{code, exit_status};
use sys::identity::stat_field;
use trace::Phase;

use crate::directory::LOG;
use crate::identity::{Identity, has_exited};
use crate::time::{Rfc3339, modified};
use crate::{Container, Error, Warn};

/// The annotation in the state of a stopped container that ran in the background: its exit code, or [`UNKNOWN`].
pub const EXIT_CODE: &str = "run.dayfly.exit-code";
/// An exit code that nobody knows: a word, because any number would be a wrong one.
pub const UNKNOWN: &str = "unknown";
/// The file on which init's pidfd is mounted, in [`LOG`].
const FILE: &str = "log/exit";
/// The file whose modification is the program's end, in [`LOG`].
const ENDED: &str = "log/ended";

/// The end of a container's program, which can be waited for even if the container is deleted meanwhile.
#[derive(Debug)]
pub struct End {
    container: Container,
    /// Init's pidfd; `None` if init has been reaped and its pidfd was not kept.
    init: Option<OwnedFd>,
    /// Whether init had not exited at the beginning.
    is_awaited: bool,
}

impl End {
    /// Waits until the program has ended. Returns its exit status, or 128 + n if signal n killed it; `None` if this is
    /// unknown.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn wait(&self) -> Result<Option<i32>, Error> {
        let Some(init) = &self.init else { return Ok(None) };
        loop {
            match poll(&mut [PollFd::new(init, PollFlags::IN)], None) {
                Err(Errno::INTR) => {}
                result => {
                    result.context("poll", "pidfd")?;
                    if self.is_awaited {
                        self.container.note_end();
                    }
                    return Ok(self.container.code(init));
                }
            }
        }
    }
}

impl Container {
    /// Returns the end of the container's program.
    ///
    /// # Errors
    /// Those of [`Container::status`].
    pub fn end(self) -> Result<End, Error> {
        self.status()?;
        let living = self.living_init()?;
        let is_awaited = living.is_some();
        let init = living.map(|(_, pidfd)| pidfd).or_else(|| self.kept());
        Ok(End { container: self, init, is_awaited })
    }

    /// Notes that the program has just ended, for a container that ran in the background.
    pub fn note_end(&self) {
        if let Ok(Some(log)) = tmpfs(self.directory.as_fd()) {
            let _ = make(&log, c"ended");
        }
    }

    /// Returns the time of the program's end, RFC 3339, if a command has noted it.
    pub fn finished(&self) -> Option<String> {
        let stat = statat(&self.directory, ENDED, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Rfc3339(modified(&stat)).to_string())
    }

    /// Keeps the exit status of init, if the kernel can do so.
    pub(crate) fn keep_exit_status(
        &self,
        pidfd: BorrowedFd<'_>,
        warn: Warn<'_>,
    ) -> Result<(), Error> {
        if !plan::Kernel::probe().keeps_exit_status() {
            return Ok(());
        }
        self.trace.work(Phase::Mounts, "keep exit status", self.id(), || {
            match mount(self.directory.as_fd(), pidfd) {
                // Another command has deleted the container.
                Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
                Err(errno) => (warn.print)(&format!(
                    "the exit code will be unknown: mount of the pidfd: {}",
                    sys::errno::describe(errno)
                )),
            }
            Ok(())
        })
    }

    /// Returns the exit code of a stopped container that ran in the background, or [`UNKNOWN`]. `None` for other
    /// containers.
    pub(crate) fn exit_code(&self) -> Option<String> {
        openat(&self.directory, LOG, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let code = self.kept().filter(has_exited).and_then(|pidfd| self.code(&pidfd));
        Some(code.map_or_else(|| UNKNOWN.into(), |code| code.to_string()))
    }

    /// Returns the exit code of init, to which `pidfd` refers and which has exited.
    fn code(&self, pidfd: &OwnedFd) -> Option<i32> {
        let (pid, _) = self.header.process?;
        // An init that is reaped meanwhile has the status of a reaped one the second time.
        let status = (0..2).find_map(|_| {
            exit_status(pidfd).ok().or_else(|| {
                let status = status_of_zombie(pid)?;
                sys::signal::send(pidfd.as_fd(), 0).is_ok().then_some(status)
            })
        });
        status.map(code)
    }

    /// Returns the kept pidfd of init.
    fn kept(&self) -> Option<OwnedFd> {
        let (pid, identity) = self.header.process?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, FILE, flags, Mode::empty()).ok()?;
        // The identity of a process whose pidfd can be mounted is the inode of the pidfd.
        (Identity::of(pid, &file) == Ok(identity)).then_some(file)
    }
}

/// Returns the status, in the format of wait(2), of a process that has exited and was not reaped.
fn status_of_zombie(pid: Pid) -> Option<i32> {
    // A reader that may not see the status sees 0. Whoever may read this link may see the status, too.
    let link = format!("/proc/{}/ns/user", pid.as_raw_nonzero());
    readlinkat(CWD, link.as_str(), Vec::new()).ok()?;
    stat_field(pid, 52).ok()
}

/// Mounts the pidfd on the tmpfs of the log, and only there: if another command is deleting the container, the tmpfs is
/// detached with this mount, or the mount fails.
fn mount(directory: BorrowedFd<'_>, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
    let Some(log) = tmpfs(directory)? else { return Ok(()) };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(pidfd, c"", flags)?;
    make(&log, c"exit")?;
    move_mount(&tree, c"", &log, c"exit", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Opens the tmpfs of the log, if there is one.
fn tmpfs(directory: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let log = openat(directory, LOG, flags, Mode::empty())?;
    Ok((fstat(&log)?.st_dev != fstat(directory)?.st_dev).then_some(log))
}

/// Creates an empty file.
fn make(directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::RUSR).map(drop)
}
