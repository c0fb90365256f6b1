//! The processes of a cgroup: lists them, and sends signals to them.

use alloc::vec::Vec;
use core::time::Duration;
use rustix::fd::BorrowedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;
use sys::Context;

use crate::directory::{Directory, File};
use crate::freezer::FreezerState;
use crate::{Cgroup, Controller, Error, tree, v1};

const SIGKILL: i32 = 9;

const FREEZE_TIMEOUT: Duration = Duration::from_millis(500);

impl Cgroup {
    /// Returns the directory from which the container's processes are read. On v1, this is the
    /// directory in the hierarchy of the devices controller, as in runc.
    pub(crate) fn primary(&self) -> Result<&Directory, Error> {
        v1::find(&self.legacy, Controller::Devices)
            .or_else(|| self.legacy.first().map(|legacy| &legacy.directory))
            .or_else(|| self.unified.as_ref().map(|unified| &unified.directory))
            .ok_or_else(|| Error::Gone("".into()))
    }

    /// Returns the processes in the cgroup itself, without those in the cgroups below it.
    ///
    /// # Errors
    /// Failing system calls; see [`Error::is_gone`].
    pub fn pids(&self) -> Result<Vec<Pid>, Error> {
        let primary = self.primary()?;
        Ok(list(primary.fd(), "")
            .context("read", format_args!("{}/cgroup.procs", primary.path()))?)
    }

    /// Returns the processes in the cgroup and all cgroups below it.
    ///
    /// # Errors
    /// Failing system calls; see [`Error::is_gone`].
    pub fn all_pids(&self) -> Result<Vec<Pid>, Error> {
        all(self.primary()?)
    }

    /// Sends `signal` to every process of the container. For SIGKILL, uses cgroup.kill if available (Linux 5.14), which
    /// also ends frozen processes. For other signals, freezes the cgroup while sending, so that each process gets the
    /// signal exactly once, and no new child process is missed.
    ///
    /// # Errors
    /// Failing system calls; see [`Error::is_gone`].
    pub fn kill_all(&self, signal: i32) -> Result<(), Error> {
        let killed = signal == SIGKILL && self.kill_unified()?;
        if killed && self.legacy.is_empty() {
            return Ok(());
        }
        let was_frozen = matches!(self.freezer_state(), Ok(FreezerState::Frozen));
        if !killed {
            // The signals are sent even if there is no freezer, or a process in uninterruptible sleep does not freeze.
            let _ = self.freeze_within(FREEZE_TIMEOUT);
        }
        let result = self.all_pids().and_then(|pids| send(&pids, signal));
        // SIGKILL ends a process that the v1 freezer has frozen only when the process is thawed.
        match signal {
            SIGKILL => drop(self.thaw_all()),
            _ if !was_frozen => drop(self.thaw()),
            _ => {}
        }
        result
    }

    /// Kills all processes by writing to cgroup.kill; returns false if this is not supported.
    fn kill_unified(&self) -> Result<bool, Error> {
        let Some(unified) = &self.unified else { return Ok(false) };
        match unified.directory.write("cgroup.kill", 1) {
            Ok(()) => Ok(true),
            // ENOENT: the kernel is older than Linux 5.14. EOPNOTSUPP: cgroup.kill does not work in a threaded cgroup.
            Err(error) if matches!(error.errno, Errno::NOENT | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns all processes in the cgroup and in all cgroups below it.
pub(crate) fn all(directory: &Directory) -> Result<Vec<Pid>, Error> {
    let context = |result: Result<(), Errno>| {
        result.context("read", format_args!("{}/cgroup.procs", directory.path()))
    };
    let mut pids = Vec::new();
    let mut add = |parent: BorrowedFd<'_>, name: &str| {
        pids.extend(list(parent, name)?);
        Ok(())
    };
    context(add(directory.fd(), ""))?;
    context(tree::each_below(directory.fd(), add))?;
    Ok(pids)
}

/// Returns the processes of the cgroup `name` in `parent`, or of `parent` itself if `name` is empty.
fn list(parent: BorrowedFd<'_>, name: &str) -> Result<Vec<Pid>, Errno> {
    let read = |file: &str| {
        let separator = if name.is_empty() { "" } else { "/" };
        sys::fs::read_at(parent, alloc::format!("{name}{separator}{file}"))
    };
    // The processes of a threaded cgroup are listed only at the root of its threaded domain. Here, its threads can be
    // listed instead.
    let bytes = match read("cgroup.procs") {
        Err(Errno::OPNOTSUPP) => read("cgroup.threads")?,
        result => result?,
    };
    let text = core::str::from_utf8(&bytes).map_err(|_| Errno::ILSEQ)?;
    // Processes outside our PID namespace are listed as pid 0, which for kill(2) means the caller's process group.
    let pid = |line: &str| line.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    Ok(text.lines().filter_map(pid).collect())
}

/// Sends `signal` to the processes; those that have exited are ignored.
pub(crate) fn send(pids: &[Pid], signal: i32) -> Result<(), Error> {
    for pid in pids {
        match sys::signal::send_to(*pid, signal) {
            // ESRCH: the process has already exited.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => {
                let object = alloc::format!("{} with signal {signal}", pid.as_raw_nonzero());
                return Err(sys::Error::new("kill", object, errno).into());
            }
        }
    }
    Ok(())
}

/// Returns the file to which the caller must write `0` to join a v1 cgroup: `cgroup.procs`, or, if `thread` is true and
/// the caller may write to it, `tasks`.
pub(crate) fn entrance(directory: &Directory, thread: bool) -> Result<File<'_>, sys::Error> {
    if thread {
        match directory.file("tasks", OFlags::WRONLY) {
            Err(error) if matches!(error.errno, Errno::ACCESS | Errno::NOENT) => {}
            result => return result,
        }
    }
    directory.file("cgroup.procs", OFlags::WRONLY)
}

/// Moves the process `pid` into a cgroup; 0 means the caller.
pub(crate) fn join(directory: &Directory, pid: i32) -> Result<(), Error> {
    Ok(directory.file("cgroup.procs", OFlags::WRONLY)?.write(pid)?)
}
