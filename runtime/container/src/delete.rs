//! `delete`: removes a container and everything that belongs to it.
//!
//! Processes and cgroup are removed first, then the directory with the record last, so that `delete` can be repeated.
//! The directory is locked before that. If several `delete` run at once, one removes the container, and the others find
//! the directory gone: none takes a new container of that name for the old one.

use alloc::format;
use core::time::Duration;

use rustix::fd::AsFd;
use rustix::fs::{Access, access, fstat};
use sys::{Context, Errno};
use trace::{PROGRAM, Phase};

use cgroup::Cgroup;

use crate::container::SIGKILL;
use crate::directory;
use crate::record::{self, Found};
use crate::state::{State, Status};
use crate::takeover::Takeover;
use crate::{Container, Error, Store, Warn, hooks, identity, template};

/// The maximum time for which `delete` waits for the exit of an init to which a preceding `kill`
/// may have sent a signal.
const GRACE: Duration = Duration::from_millis(50);

/// The maximum time for which `delete` waits for the exit of a killed init before it kills the
/// other processes in the cgroup, too.
const SOON: Duration = Duration::from_millis(200);

/// The result of [`Store::delete`].
#[derive(Debug)]
pub enum Removed {
    /// A container whose init had this pid; 0 if the container never had an init.
    Container(i32),
    /// The remains of a container, if there were any. The error is the reason why the container could not be opened.
    Remains(Error),
}

impl Store {
    /// Removes a container as [`Container::delete`] does. If the container cannot be opened, removes its remains: those
    /// of a `create` that was killed before it wrote the record, or, with `force`, those of a container whose record is
    /// damaged.
    ///
    /// # Errors
    /// Those of [`Container::delete`] and [`Store::sweep`]; if the record is damaged and `force` is not set.
    pub fn delete(&self, id: &str, force: bool, warn: Warn<'_>) -> Result<Removed, Error> {
        self.delete_found(id, self.container(id), force, warn)
    }

    /// Removes the stopped containers whose bundle was a directory in `bundles` and no longer exists: the command that
    /// should have deleted such a container was killed, and its caller will not repeat it. `removed` is called with the
    /// state of each container after its removal. Containers whose bundle exists are not opened.
    ///
    /// # Errors
    /// If the state root cannot be read. A container that cannot be removed, or on which another command works, is left
    /// as it is.
    pub fn delete_abandoned(
        &self,
        bundles: &str,
        mut removed: impl FnMut(&State),
        warn: Warn<'_>,
    ) -> Result<(), Error> {
        access(bundles, Access::EXISTS).context("access", bundles)?;
        for id in self.names()? {
            let bundle = format!("{bundles}/{id}");
            if access(bundle.as_str(), Access::EXISTS) != Err(Errno::NOENT) {
                continue;
            }
            let Ok(container) = self.container(&id) else { continue };
            let Ok(state) = container.state() else { continue };
            let is_abandoned = state.status == Status::Stopped && state.bundle == bundle;
            if is_abandoned && container.destroy_unless_in_use(warn).is_ok_and(|done| done) {
                removed(&state);
            }
        }
        Ok(())
    }

    /// Removes a container as [`Store::delete`] does, given the result of [`Store::container`] for `id`.
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
        let found = match found {
            Err(error) if force && error.is_not_found() => self.await_creation(id, error)?,
            found => found,
        };
        match found {
            Ok(container) => {
                let pid = container.header.process.map_or(0, |(pid, _)| pid.as_raw_nonzero().get());
                match container.delete(force, warn) {
                    // Another command has removed the container first.
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

    /// Waits while another command works on the directory of a container without a record: most often a `create` that
    /// has just begun. Otherwise a forced deletion would report success, and the container would exist afterwards.
    /// Returns the container, or `error` if there is none.
    #[cold]
    fn await_creation(&self, id: &str, error: Error) -> Result<Result<Container, Error>, Error> {
        let Some(directory) = self.owned(id)? else { return Ok(Err(error)) };
        if !directory::is_locked(directory.as_fd()) {
            return Ok(Err(error));
        }
        self.trace().point("wait for creation of", id)?;
        let mut takeover = Takeover::begin(directory.as_fd());
        while directory::is_locked(directory.as_fd()) {
            match self.container(id) {
                Err(error) if error.is_not_found() => {}
                found => return Ok(found),
            }
            takeover.forget();
            if !takeover.wait()? {
                return Err(Error::Text(format!(
                    "another command is creating or deleting container {id}, and does not go on"
                )));
            }
        }
        Ok(self.container(id))
    }
}

impl Container {
    /// Destroys a stopped container, unless another command works on it or has removed it. Returns whether it was
    /// destroyed.
    fn destroy_unless_in_use(self, warn: Warn<'_>) -> Result<bool, Error> {
        if directory::lock(self.directory.as_fd()).is_err() {
            return Ok(false);
        }
        let stat = fstat(&self.directory).context("fstat", self.id())?;
        if stat.st_nlink == 0 {
            return Ok(false);
        }
        self.destroy(warn).map(|()| true)
    }

    /// Removes the container if its status is stopped or created. With `force`, removes the container whatever its
    /// status. Failing poststop hooks cause warnings. First waits for other commands that are creating or removing the
    /// container; with `force`, also kills init, so that a creation in progress fails.
    ///
    /// # Errors
    /// If the container is running and `force` is not set; if its processes or its cgroup cannot be removed.
    pub fn delete(self, force: bool, warn: Warn<'_>) -> Result<(), Error> {
        let status = self.unfinished_status()?;
        match status {
            Status::Stopped | Status::Created => {}
            _ if force => {}
            Status::Creating => return Err(self.not_found()),
            // Callers often run `delete` immediately after `kill`, when init has not exited yet.
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

    /// Locks the container against other commands. Returns `None` if another command has removed the container, even if
    /// a new container with the same id exists by now. Waits at most [`identity::PATIENCE`] for a command that hangs.
    /// Afterwards the caller removes everything that the hanging command created, so that the hanging command fails
    /// when it continues.
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
        self.trace.point("wait for container lock", &self.record.id)?;
        let mut takeover = Takeover::begin(self.directory.as_fd());
        loop {
            self.read_again()?;
            if let (true, Some((_, pidfd))) = (force, self.living_init()?) {
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

    /// Reads the record again, because the command that creates the container may have added the process meanwhile.
    fn read_again(&mut self) -> Result<(), Error> {
        if let Found::Whole(stored) = record::read(self.directory.as_fd(), &self.record.id)? {
            (self.header, self.record) = (stored.header, stored.record);
        }
        Ok(())
    }

    /// Kills all processes in the container's cgroup. Called if init has not exited after SIGKILL. Such an init waits
    /// for the exit of traced processes, which exit only when their tracer does. Their tracer is the criu of a killed
    /// `restore`, and criu waits for init.
    #[cold]
    fn kill_all(&self) {
        if let Some(cgroup) = self.record.cgroup.as_ref().and_then(|at| Cgroup::open(at).ok()) {
            // Surviving processes make the removal of the cgroup fail.
            let _ = cgroup.kill_all(SIGKILL);
        }
    }

    /// Kills all processes and removes the container's resources on the host. The directory with the record is removed
    /// last, so that another `delete` can continue after an interruption.
    pub(crate) fn destroy(self, warn: Warn<'_>) -> Result<(), Error> {
        if let Some((_, pidfd)) = self.living_init()? {
            self.trace.work(Phase::Shutdown, "kill", "init", || {
                match sys::signal::send(pidfd.as_fd(), SIGKILL) {
                    Ok(()) | Err(Errno::SRCH) => Ok(()),
                    Err(errno) => Err(sys::Error::new("kill", "init", errno)),
                }
            })?;
            self.resume_quietly();
            self.trace.wait(Phase::Shutdown, "await exit", "init", PROGRAM, || {
                if sys::pidfd::wait_for_exit(&pidfd, SOON) {
                    return Ok(());
                }
                self.kill_all();
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
            // The container is removed even if the pool cannot account for the returned cgroup.
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
        if let Some(location) = &self.record.cgroup {
            template::tidy(self.root.as_fd(), location);
        }
        hooks::after_stop(&self, warn);
        Ok(())
    }
}
