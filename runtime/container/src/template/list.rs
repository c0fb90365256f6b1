//! The templates of a state root: which there are, and their removal.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use cgroup::Cgroup;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, statat};
use rustix::process::Pid;
use serde::Serialize;
use sys::wait::Deadline;

use super::find::Greeting;
use super::{FORKED, REQUESTS, find};
use crate::container::SIGKILL;
use crate::{Container, Error, Status, Store, Warn, identity};

/// The time that a reaper has to exit after its program.
const DYING: Duration = Duration::from_millis(500);

/// A template, as `template ls` prints it.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The template's name, which is the id of its container.
    pub name: String,
    /// Whether the template serves requests. If not, its program has ended.
    pub serves: bool,
    /// The pid of the reaper; 0 if it has exited.
    pub pid: i32,
    /// The running containers whose programs this template has forked.
    pub containers: usize,
    /// The bundle's absolute path.
    pub bundle: String,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// The template is gone.
    Removed,
    /// The template's program has ended, but this number of containers that it has forked go on. Its reaper stays as
    /// long as they do, and until their parents have reaped them: the kernel keeps the first process of a PID namespace
    /// until no other has a pid there.
    Containers(usize),
}

impl Store {
    /// Returns all templates.
    ///
    /// # Errors
    /// If the state root cannot be read.
    pub fn templates(&self) -> Result<Vec<Entry>, Error> {
        let states = self.list()?;
        let mut entries = Vec::new();
        for state in &states {
            let Ok(container) = self.container(&state.id) else { continue };
            if !container.is_template() {
                continue;
            }
            let of_it = states.iter().filter(|other| {
                other.status != Status::Stopped && other.annotations.get(FORKED) == Some(&state.id)
            });
            entries.push(Entry {
                name: state.id.clone(),
                serves: find::reach(&container).is_ok(),
                pid: state.pid,
                containers: of_it.count(),
                bundle: state.bundle.clone(),
            });
        }
        Ok(entries)
    }

    /// Returns the bundle of a template.
    ///
    /// # Errors
    /// If there is no template of this name.
    pub fn bundle_of_template(&self, name: &str) -> Result<String, Error> {
        match self.container_of_template(name)? {
            container if container.is_template() => Ok(container.record.bundle),
            _ => Err(Error::Text(format!("{name} is a container, but no template"))),
        }
    }

    fn container_of_template(&self, name: &str) -> Result<Container, Error> {
        self.container(name).map_err(|error| match error {
            Error::NotFound(_) => Error::Text(format!("template does not exist: {name}")),
            error => error,
        })
    }

    /// Waits until a new template serves requests. Removes the template if it does not within `time`.
    ///
    /// # Errors
    /// If the template's program has ended, or does not serve requests in time.
    pub fn await_template(&self, name: &str, time: Duration, warn: Warn<'_>) -> Result<(), Error> {
        let container = self.container(name)?;
        let error = match find::greet(&container, Deadline::after(time)) {
            Greeting::Serves => return Ok(()),
            Greeting::Silent => silent(name, time),
            Greeting::Ended => ended(name),
        };
        container.delete(true, warn)?;
        Err(error)
    }

    /// Ends a template's program. Removes the template, too, unless containers that it has forked go on; with `force`,
    /// these are killed.
    ///
    /// # Errors
    /// If there is no template of this name, or if it cannot be removed.
    pub fn remove_template(&self, name: &str, force: bool, warn: Warn<'_>) -> Result<Rest, Error> {
        let container = self.container_of_template(name)?;
        if !container.is_template() {
            return Err(Error::Text(format!(
                "{name} is a container, but no template: use \"dayfly delete {name}\""
            )));
        }
        if !force {
            container.end_program();
            let is_left = container
                .init()
                .is_some_and(|(_, reaper)| !sys::pidfd::wait_for_exit(&reaper, DYING));
            if is_left {
                let mut templates = self.templates()?.into_iter();
                let containers = templates.find(|entry| entry.name == name);
                return Ok(Rest::Containers(containers.map_or(0, |entry| entry.containers)));
            }
        }
        container.delete(true, warn)?;
        Ok(Rest::Removed)
    }
}

impl Container {
    /// Returns whether a template has forked the container's program.
    pub(crate) fn is_forked(&self) -> bool {
        self.record.annotations.iter().any(|(key, _)| key == FORKED)
    }

    /// Returns whether the container is a template.
    pub fn is_template(&self) -> bool {
        statat(&self.directory, REQUESTS, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Kills the program of a template: all processes of its cgroup except the reaper.
    fn end_program(&self) {
        let Some((reaper, _)) = self.init() else { return };
        let cgroup = self.record.cgroup.as_ref().and_then(|at| Cgroup::open(at).ok());
        let pids = cgroup.and_then(|cgroup| cgroup.pids().ok()).unwrap_or_default();
        // The program may have left its cgroup.
        for pid in pids.into_iter().chain(program_of(reaper)) {
            if let Ok(pidfd) =
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
                && pid != reaper
                && !identity::has_exited(&pidfd)
            {
                let _ = sys::signal::send(pidfd.as_fd(), SIGKILL);
            }
        }
    }
}

pub(super) fn silent(name: &str, time: Duration) -> Error {
    Error::Text(format!(
        "template {name} did not wait for requests within {} s; does its program call \
         dayfly_template.wait()?",
        time.as_secs_f32()
    ))
}

pub(super) fn ended(name: &str) -> Error {
    Error::Text(format!("the program of template {name} ended before it waited for requests"))
}

/// Returns the program of a template: the first child of its reaper (proc_pid_task_children(5)), if its pid in the PID
/// namespace is the program's. After the program's end, forked programs of containers are the reaper's children.
fn program_of(reaper: Pid) -> Option<Pid> {
    let reaper = reaper.as_raw_nonzero();
    let read = |path: String| sys::fs::read_text(path.as_str()).unwrap_or_default();
    let children = read(format!("/proc/{reaper}/task/{reaper}/children"));
    let first = children.split_whitespace().next()?;
    let status = read(format!("/proc/{first}/status"));
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let own: Vec<&str> = pids.split_whitespace().collect();
    let reapers = read(format!("/proc/{reaper}/status"));
    let depth = reapers.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    // A forked program is one PID namespace deeper.
    let is_program = own.len() == depth.split_whitespace().count();
    is_program.then(|| Pid::from_raw(first.parse().ok()?)).flatten()
}
