//! Pauses and resumes a container: with cgroup.freeze (Linux 5.2), or with freezer.state on cgroup v1.

use alloc::string::ToString;
use core::time::Duration;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use sys::Context;

use crate::directory::Directory;
use crate::wait::{self, Deadline};
use crate::{Cgroup, Controller, Error, tree, v1};

/// The time limit for freezing. A process in uninterruptible sleep freezes only when it wakes up.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The freezer state of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreezerState {
    /// There is no freezer, or no cgroup.
    Undefined,
    /// Running.
    Thawed,
    /// Paused.
    Frozen,
}

/// The freezer of a cgroup: the v1 freezer if it is mounted, otherwise the v2 freezer.
enum Freezer<'a> {
    Legacy(&'a Directory),
    Unified(&'a Directory),
}

impl Cgroup {
    fn freezer(&self) -> Option<Freezer<'_>> {
        let legacy = v1::find(&self.legacy, Controller::Freezer).map(Freezer::Legacy);
        let unified = self.unified.as_ref().map(|unified| Freezer::Unified(&unified.directory));
        legacy.or(unified)
    }

    /// Returns the directory that contains the freezer's files.
    pub(crate) fn freezer_directory(&self) -> Option<&Directory> {
        self.freezer().map(|freezer| match freezer {
            Freezer::Legacy(directory) | Freezer::Unified(directory) => directory,
        })
    }

    /// Returns the path of the directory that contains the freezer's files; `None` if the cgroup cannot be frozen.
    pub fn freezer_path(&self) -> Option<&str> {
        self.freezer_directory().map(Directory::path)
    }

    /// Freezes all processes and waits until they are frozen.
    ///
    /// # Errors
    /// [`Error::NotFreezing`] after ten seconds, in which case the cgroup is thawed again; [`Error::NoController`];
    /// failing system calls.
    pub fn freeze(&self) -> Result<(), Error> {
        self.freeze_within(TIMEOUT)
    }

    /// Freezes like [`Cgroup::freeze`], with the given time limit.
    pub(crate) fn freeze_within(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(limit);
        let frozen = match self.freezer() {
            Some(Freezer::Legacy(directory)) => freeze_legacy(directory, deadline),
            Some(Freezer::Unified(directory)) => freeze_unified(directory, deadline),
            None => v1::require(&self.legacy, Controller::Freezer, "freezer.state").map(drop),
        };
        if frozen.is_err() {
            // The cgroup must not stay partly frozen.
            let _ = self.thaw();
        }
        frozen
    }

    /// Thaws all processes.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn thaw(&self) -> Result<(), Error> {
        match self.freezer() {
            Some(Freezer::Legacy(directory)) => Ok(directory.write("freezer.state", "THAWED")?),
            Some(Freezer::Unified(directory)) => match directory.write("cgroup.freeze", 0) {
                // If the file is missing, the kernel has no freezer, so the cgroup is not frozen.
                Err(error) if error.errno == Errno::NOENT => Ok(()),
                result => Ok(result?),
            },
            None => Ok(()),
        }
    }

    /// Thaws all processes, including those in the cgroups below. A container with write access to its v1 freezer may
    /// have frozen itself or cgroups below it, and SIGKILL does not end processes that the v1 freezer has frozen.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn thaw_all(&self) -> Result<(), Error> {
        self.thaw()?;
        let Some(Freezer::Legacy(directory)) = self.freezer() else { return Ok(()) };
        let thaw = |parent: BorrowedFd<'_>, name: &str| {
            sys::fs::write_at(parent, alloc::format!("{name}/freezer.state"), b"THAWED")
        };
        let thawed = tree::each_below(directory.fd(), thaw);
        Ok(thawed.context("thaw", format_args!("cgroups below {}", directory.path()))?)
    }

    /// Returns the state of this cgroup's own freezer, regardless of the state of its ancestors.
    ///
    /// # Errors
    /// Failing system calls. A removed cgroup is not an error, but [`FreezerState::Undefined`].
    pub fn freezer_state(&self) -> Result<FreezerState, Error> {
        let state = match self.freezer() {
            Some(Freezer::Legacy(directory)) => directory.read_number("freezer.self_freezing"),
            Some(Freezer::Unified(directory)) => directory.read_number("cgroup.freeze"),
            None => return Ok(FreezerState::Undefined),
        };
        match state {
            Err(error) if error.is_gone() => Ok(FreezerState::Undefined),
            state => Ok(if state? == 0 { FreezerState::Thawed } else { FreezerState::Frozen }),
        }
    }
}

fn freeze_unified(directory: &Directory, deadline: Deadline) -> Result<(), Error> {
    directory.write("cgroup.freeze", 1)?;
    if wait::event(directory, "frozen", 1, deadline)? {
        Ok(())
    } else {
        Err(Error::NotFreezing(directory.path().to_string()))
    }
}

/// Freezes with the v1 freezer. This freezer does not report when it is done, and it stays in the state FREEZING if
/// processes are created meanwhile. So the request is repeated, and the cgroup is thawed from time to time, as in runc.
fn freeze_legacy(directory: &Directory, deadline: Deadline) -> Result<(), Error> {
    let mut page = [0; 16];
    for round in 1u32.. {
        directory.write("freezer.state", "FROZEN")?;
        if directory.read_short("freezer.state", &mut page)?.trim_end() == "FROZEN" {
            return Ok(());
        }
        if deadline.left().is_none() {
            break;
        }
        if round % 50 == 0 {
            directory.write("freezer.state", "THAWED")?;
            wait::moment(Duration::from_millis(10));
        } else if round > 5 {
            wait::moment(Duration::from_millis(1));
        }
    }
    Err(Error::NotFreezing(directory.path().to_string()))
}
