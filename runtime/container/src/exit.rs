//! The exit code of a container in the background.
//!
//! No process of dayfly stays with such a container, and its init is reaped by whoever becomes its parent. From Linux
//! 6.15, the kernel keeps the exit status of a reaped process as long as its pidfd is in use. So init's pidfd is mounted
//! on a file in the container's directory, on the tmpfs of the log, with which the mount is removed. It takes no process
//! and no memory but the kernel's (mount and inode, about 1 KiB). On older kernels, and without root, the exit code is
//! unknown once init was reaped.
//!
//! A process that waits was rejected. It would have to be init's parent, so that `run` would have to fork before the
//! start, and each container would have another process, which can be killed.

use alloc::format;
use alloc::string::{String, ToString};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use sys::Context;
use sys::exit_info::exit_code;
use trace::Phase;

use crate::directory::LOG;
use crate::identity::{Identity, has_exited};
use crate::{Container, Error, Warn};

/// The annotation in the state of a stopped container that ran in the background: its exit code, or `-` if this is
/// unknown.
pub const EXIT_CODE: &str = "run.dayfly.exit-code";
/// The file on which init's pidfd is mounted, in [`LOG`].
const FILE: &str = "log/exit";

/// The end of a container's program, which can be waited for even if the container is deleted meanwhile.
#[derive(Debug)]
pub struct End {
    container: Container,
    /// Init's pidfd; `None` if init has been reaped and its pidfd was not kept.
    init: Option<OwnedFd>,
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
        let init = self.living_init()?.map(|(_, pidfd)| pidfd).or_else(|| self.kept());
        Ok(End { container: self, init })
    }

    /// Keeps the exit status of init, if the kernel can do so.
    pub(crate) fn keep_exit_status(
        &self,
        pidfd: BorrowedFd<'_>,
        warn: Warn<'_>,
    ) -> Result<(), Error> {
        // Where the log has no tmpfs, nobody else would see the mount.
        if self.record.confined || !plan::Kernel::probe().keeps_exit_status() {
            return Ok(());
        }
        self.trace.work(Phase::Mounts, "keep exit status", self.id(), || {
            if let Err(errno) = mount(self.directory.as_fd(), pidfd)
                && errno != Errno::PERM
            {
                let why = sys::errno::describe(errno);
                (warn.print)(&format!("the exit code will be unknown: mount of the pidfd: {why}"));
            }
            Ok(())
        })
    }

    /// Returns the exit code of a stopped container that ran in the background, or `-`. `None` for other containers.
    pub(crate) fn exit_code(&self) -> Option<String> {
        openat(&self.directory, LOG, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let code = self.kept().filter(has_exited).and_then(|pidfd| self.code(&pidfd));
        Some(code.map_or_else(|| "-".into(), |code| code.to_string()))
    }

    fn code(&self, pidfd: &OwnedFd) -> Option<i32> {
        self.header.process.and_then(|(pid, _)| exit_code(pid, pidfd))
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

fn mount(directory: BorrowedFd<'_>, pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(pidfd, c"", flags)?;
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    drop(openat(directory, FILE, create, Mode::RUSR)?);
    move_mount(&tree, c"", directory, FILE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
