//! `delete`: removes a container and everything that belongs to it.

use core::time::Duration;

use rustix::fd::AsFd;
use rustix::fs::fstat;
use sys::{Context, Errno};
use trace::{PROGRAM, Phase};

use cgroup::Cgroup;

use crate::container::SIGKILL;
use crate::directory;
use crate::record::{self, Found};
use crate::state::Status;
use crate::takeover::Takeover;
use crate::{Container, Error, Store, Warn, hooks, identity};

/// How long `delete` waits for an init that may be dying from a preceding `kill`.
const GRACE: Duration = Duration::from_millis(50);

/// The result of [`Store::delete`].
#[derive(Debug)]
pub enum Removed {
    /// A container whose init had this pid, or 0 if it never had one.
    Container(i32),
    /// The remains of a container, if any; the error tells why there is no container.
    Remains(Error),
}

impl Store {
    /// Removes a container as [`Container::delete`] does. Otherwise removes the remains of a container: of a create
    /// that was killed before it wrote its record, or, with `force`, of a container with a damaged record.
    ///
    /// # Errors
    /// Those of [`Container::delete`] and [`Store::sweep`]; a damaged record without `force`.
    pub fn delete(&self, id: &str, force: bool, warn: Warn<'_>) -> Result<Removed, Error> {
        self.delete_found(id, self.container(id), force, warn)
    }

    /// Does the same as [`Store::delete`] with the result of [`Store::container`] for `id`.
    ///
    /// # Errors
    /// Those of [`Store::delete`].
    pub fn delete_found(
        &self,
        id: &str,
        found: Result<Container, Error>,
        force: bool,
        warn: Warn<'_>,
    ) -> Result<Removed, Error> {
        match found {
            Ok(container) => {
                let pid = container.header.process.map_or(0, |(pid, _)| pid.as_raw_nonzero().get());
                match container.delete(force, warn) {
                    // Another command has removed it first.
                    Err(error) if force && error.is_not_found() => {}
                    result => result?,
                }
                Ok(Removed::Container(pid))
            }
            Err(error) if error.is_not_found() || (error.is_damaged() && force) => {
                self.sweep(id)?;
                Ok(Removed::Remains(error))
            }
            Err(error) => Err(error),
        }
    }
}

impl Container {
    /// Removes the container if it is stopped or created, or with `force` in any state. Failing poststop hooks cause
    /// warnings. Waits for commands that are creating or removing it; with `force`, init is killed, which ends a
    /// creation in progress.
    ///
    /// # Errors
    /// If the container is running and `force` is not set; if processes or cgroup cannot be removed.
    pub fn delete(self, force: bool, warn: Warn<'_>) -> Result<(), Error> {
        let status = self.unfinished_status()?;
        match status {
            Status::Stopped | Status::Created => {}
            _ if force => {}
            Status::Creating => return Err(self.not_found()),
            // `kill` and at once `delete` is what callers do; a signal takes its time to arrive.
            Status::Running if self.ends_within(GRACE) => {}
            _ => {
                return Err(Error::CannotDelete { id: self.id().into(), status });
            }
        }
        self.remove(force, warn)
    }

    /// Destroys the container unless another command has removed it.
    pub(crate) fn remove(self, force: bool, warn: Warn<'_>) -> Result<(), Error> {
        self.take(force)?.map_or(Ok(()), |container| container.destroy(warn))
    }

    /// Locks the container against other commands. Returns `None` if another command has removed it: a container with
    /// this name would be a different one. A hanging command is awaited for at most [`identity::PATIENCE`]; afterwards
    /// everything that it created is removed, so that it fails.
    fn take(mut self, force: bool) -> Result<Option<Self>, Error> {
        let is_held = directory::lock(self.directory.as_fd()).is_err();
        if is_held {
            self.await_others(force)?;
        }
        if is_held || self.header.process.is_none() {
            self.read_again()?;
        }
        let stat = fstat(&self.directory).context("fstat", &self.record.id)?;
        Ok((stat.st_nlink > 0).then_some(self))
    }

    #[cold]
    fn await_others(&mut self, force: bool) -> Result<(), Error> {
        self.trace.point("wait for who works on", &self.record.id)?;
        let mut takeover = Takeover::begin(self.directory.as_fd());
        loop {
            self.read_again()?;
            if let (true, Some((_, pidfd))) = (force, self.init()) {
                let _ = sys::signal::send(pidfd.as_fd(), SIGKILL);
                self.resume_quietly();
            }
            takeover.forget();
            if directory::lock(self.directory.as_fd()).is_ok() || !takeover.wait()? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the record again, because the other command has added the process since.
    fn read_again(&mut self) -> Result<(), Error> {
        if let Found::Whole(stored) = record::read(self.directory.as_fd(), &self.record.id)? {
            (self.header, self.record) = (stored.header, stored.record);
        }
        Ok(())
    }

    /// Kills all processes and removes cgroup and directory, in an order that can be repeated after an interruption:
    /// the record goes last.
    pub(crate) fn destroy(self, warn: Warn<'_>) -> Result<(), Error> {
        if let Some((_, pidfd)) = self.init() {
            self.trace.work(Phase::Shutdown, "kill", "init", || {
                match sys::signal::send(pidfd.as_fd(), SIGKILL) {
                    Ok(()) | Err(Errno::SRCH) => Ok(()),
                    Err(errno) => Err(sys::Error::new("kill", "init", errno)),
                }
            })?;
            self.resume_quietly();
            self.trace.wait(Phase::Shutdown, "await exit", "init", PROGRAM, || {
                match sys::pidfd::wait_for_exit(&pidfd, identity::PATIENCE) {
                    true => Ok(()),
                    false => Err(Error::Survives),
                }
            })?;
        }
        if let Some(location) = &self.record.cgroup {
            self.trace.work(Phase::Shutdown, "remove cgroup", location.directory(), || {
                Ok::<_, Error>(Cgroup::delete(location)?)
            })?;
            // An error of the pool's accounting is no reason to keep the container.
            let _ = cgroup::pool::release(location);
        }
        if let Some(group) = &self.record.resctrl {
            self.trace.work(Phase::Shutdown, "remove resctrl group", "", || {
                Ok::<_, Error>(group.remove()?)
            })?;
        }
        if let Some(layered) = &self.record.layered {
            self.trace.work(Phase::Shutdown, "release rootfs", self.id(), || layered.release())?;
        }
        self.trace.work(Phase::Shutdown, "remove state", self.id(), || {
            directory::remove(self.root.as_fd(), self.directory.as_fd(), &self.record.id)
        })?;
        hooks::after_stop(&self, warn);
        Ok(())
    }
}
