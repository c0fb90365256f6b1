//! Pausing and resuming: cgroup.freeze (Linux 5.2), or freezer.state on cgroup v1.

use alloc::string::ToString;
use core::time::Duration;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use sys::Context;

use crate::directory::Directory;
use crate::wait::{self, Deadline};
use crate::{Cgroup, Controller, Error, tree, v1};

/// A process in uninterruptible sleep does not freeze before it wakes up.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a cgroup is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreezerState {
    /// There is no freezer, or no cgroup.
    Undefined,
    /// Running.
    Thawed,
    /// Paused.
    Frozen,
}

/// The freezer of a cgroup: v1 wherever it is mounted, as its processes are frozen there only.
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

    /// Where it is frozen and thawed.
    pub(crate) fn freezer_directory(&self) -> Option<&Directory> {
        self.freezer().map(|freezer| match freezer {
            Freezer::Legacy(directory) | Freezer::Unified(directory) => directory,
        })
    }

    /// The directory where it is frozen, if that is possible.
    pub fn freezer_path(&self) -> Option<&str> {
        self.freezer_directory().map(Directory::path)
    }

    /// Freezes all processes and waits until they are.
    ///
    /// # Errors
    /// [`Error::NotFreezing`] after ten seconds, thawed again; [`Error::NoController`]; failing
    /// system calls.
    pub fn freeze(&self) -> Result<(), Error> {
        self.freeze_within(TIMEOUT)
    }

    /// As [`Cgroup::freeze`], with a time limit of one's own.
    pub(crate) fn freeze_within(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(limit);
        let frozen = match self.freezer() {
            Some(Freezer::Legacy(directory)) => freeze_legacy(directory, deadline),
            Some(Freezer::Unified(directory)) => freeze_unified(directory, deadline),
            None => v1::require(&self.legacy, Controller::Freezer, "freezer.state").map(drop),
        };
        if frozen.is_err() {
            // Half frozen is the worst of all states.
            let _ = self.thaw();
        }
        frozen
    }

    /// Lets all processes run.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn thaw(&self) -> Result<(), Error> {
        match self.freezer() {
            Some(Freezer::Legacy(directory)) => Ok(directory.write("freezer.state", "THAWED")?),
            Some(Freezer::Unified(directory)) => match directory.write("cgroup.freeze", 0) {
                // What cannot be frozen is thawed.
                Err(error) if error.errno == Errno::NOENT => Ok(()),
                result => Ok(result?),
            },
            None => Ok(()),
        }
    }

    /// Lets all processes run, those in cgroups below as well: a container that may write to its v1 freezer can
    /// have frozen some there, or itself, and what v1 has frozen does not die of SIGKILL.
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

    /// Whether this cgroup itself, rather than one above it, is frozen.
    ///
    /// # Errors
    /// Failing system calls; a cgroup that is gone is [`FreezerState::Undefined`].
    pub fn freezer_state(&self) -> Result<FreezerState, Error> {
        let state = match self.freezer() {
            Some(Freezer::Legacy(directory)) => state_legacy(directory),
            Some(Freezer::Unified(directory)) => state_unified(directory),
            None => Ok(FreezerState::Undefined),
        };
        match state {
            Err(error) if error.is_gone() => Ok(FreezerState::Undefined),
            state => state,
        }
    }
}

fn freeze_unified(directory: &Directory, deadline: Deadline) -> Result<(), Error> {
    directory.write("cgroup.freeze", 1)?;
    if wait::event(directory, "frozen", 1, deadline)? {
        Ok(())
    } else {
        Err(Error::NotFreezing { directory: directory.path().to_string() })
    }
}

fn state_unified(directory: &Directory) -> Result<FreezerState, Error> {
    match directory.read_number("cgroup.freeze")? {
        0 => Ok(FreezerState::Thawed),
        _ => Ok(FreezerState::Frozen),
    }
}

/// The v1 freezer announces nothing and gets stuck in FREEZING while new processes appear. Asking
/// again helps, and so does a thaw now and then (runc's experience).
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
    Err(Error::NotFreezing { directory: directory.path().to_string() })
}

fn state_legacy(directory: &Directory) -> Result<FreezerState, Error> {
    // The state is THAWED, FREEZING or FROZEN, and counts what is inherited from above; this one is
    // the cgroup's own, and is set as soon as freezing begins.
    match directory.read_number("freezer.self_freezing")? {
        0 => Ok(FreezerState::Thawed),
        _ => Ok(FreezerState::Frozen),
    }
}
