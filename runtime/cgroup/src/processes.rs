//! The processes of a cgroup: listing and signalling them.

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
    /// Returns the directory that lists the container's processes: on v1 the one of the devices controller, as in runc.
    pub(crate) fn primary(&self) -> Result<&Directory, Error> {
        v1::find(&self.legacy, Controller::Devices)
            .or_else(|| self.legacy.first().map(|legacy| &legacy.directory))
            .or_else(|| self.unified.as_ref().map(|unified| &unified.directory))
            .ok_or_else(|| Error::Gone { directory: "".into() })
    }

    /// Returns the processes in the cgroup itself.
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

    /// Sends `signal` to every process of the container. SIGKILL uses cgroup.kill if available (Linux 5.14) and reaches
    /// frozen processes, too. For other signals the cgroup is frozen meanwhile, so that each process gets the signal
    /// once and no new child escapes.
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
            // Without a freezer, or with a process in uninterruptible sleep, the signals are sent anyway.
            let _ = self.freeze_within(FREEZE_TIMEOUT);
        }
        let result = self.all_pids().and_then(|pids| send(&pids, signal));
        // A process frozen by v1 dies of SIGKILL only after it is thawed.
        match signal {
            SIGKILL => drop(self.thaw_all()),
            _ if !was_frozen => drop(self.thaw()),
            _ => {}
        }
        result
    }

    /// Kills by cgroup.kill; returns false if this file does not exist.
    fn kill_unified(&self) -> Result<bool, Error> {
        let Some(unified) = &self.unified else { return Ok(false) };
        match unified.directory.write("cgroup.kill", 1) {
            Ok(()) => Ok(true),
            // Before Linux 5.14; threaded cgroups have no cgroup.kill at all.
            Err(error) if matches!(error.errno, Errno::NOENT | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns every process in `directory` and below it.
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
    // A threaded cgroup lists its processes only at the threaded domain's root; here only its threads are listed.
    let bytes = match read("cgroup.procs") {
        Err(Errno::OPNOTSUPP) => read("cgroup.threads")?,
        result => result?,
    };
    let text = core::str::from_utf8(&bytes).map_err(|_| Errno::ILSEQ)?;
    // Processes outside our PID namespace have pid 0, which kill(2) takes for the caller's process group.
    let pid = |line: &str| line.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    Ok(text.lines().filter_map(pid).collect())
}

fn send(pids: &[Pid], signal: i32) -> Result<(), Error> {
    for pid in pids {
        match sys::signal::send_to(*pid, signal) {
            // It has exited by itself.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => {
                let object = alloc::format!("{} with signal {signal}", pid.as_raw_nonzero());
                return Err(sys::Error::new("kill", object, errno).into());
            }
        }
    }
    Ok(())
}

/// Returns the file to which the caller writes `0` to join a v1 cgroup: `tasks` to move a `thread`. A user may have
/// permission for `cgroup.procs` only.
pub(crate) fn entrance(directory: &Directory, thread: bool) -> Result<File<'_>, sys::Error> {
    if thread {
        match directory.file("tasks", OFlags::WRONLY) {
            Err(error) if matches!(error.errno, Errno::ACCESS | Errno::NOENT) => {}
            result => return result,
        }
    }
    directory.file("cgroup.procs", OFlags::WRONLY)
}

/// Moves the process `pid` into a cgroup; 0 is the caller.
pub(crate) fn join(directory: &Directory, pid: i32) -> Result<(), Error> {
    Ok(directory.file("cgroup.procs", OFlags::WRONLY)?.write(pid)?)
}
