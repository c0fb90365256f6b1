//! Sweep: removes what a killed worker has left of the container that it was creating or restoring, and what killed
//! `delete` commands have left of others.
//!
//! A worker that is killed when its call's time is over is swept up before the call is answered. The same happens if
//! Delete is called for a container that a worker is still creating: its client has gone. A worker tells the shim when
//! it has claimed its container's id. If it is killed before that, an existing container with this id is another one,
//! and is not removed.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::mem::take;

use container::{State, Store, Warn};
use proto::ttrpc::Status;
use rustix::fd::AsFd;
use rustix::fs::{Access, access};

use crate::bootstrap::bundle::state_root;
use crate::bootstrap::{Daemon, address, group, socket};
use crate::caller::{Caller, failed_as};
use crate::shim::Shim;
use crate::table::{Stage, Task};
use crate::task;
use crate::worker::{Job, Kind, Worker};

const SIGKILL: i32 = 9;

impl Shim {
    /// Ends the creation of a container, and answers the Delete call of `caller` when nothing is left of the container.
    pub(crate) fn end_creation(&mut self, key: u32, caller: Caller) {
        let Some(task) = self.tasks.task_of_process_mut(key) else { return };
        task.deleters.push(caller);
        let works_on_it = |worker: &&Worker| match worker.job.kind {
            Kind::Create { task, .. } | Kind::Sweep { task, .. } => task == key,
            _ => false,
        };
        match self.workers.iter().find(works_on_it) {
            Some(Worker { job: Job { kind: Kind::Sweep { .. }, .. }, .. }) => {}
            // The worker's exit is then handled like that of any worker that was killed.
            Some(worker) => drop(sys::signal::send(worker.child.pidfd.as_fd(), SIGKILL)),
            // The container's logger is not ready yet, so there is no worker.
            None => self.forget(key),
        }
    }

    /// Returns whether Delete was called for a container whose creation had not ended.
    pub(crate) fn is_deleted(&self, key: u32) -> bool {
        self.tasks.of_process(key).is_some_and(|task| !task.deleters.is_empty())
    }

    /// Removes the parts of a container that a killed worker had created. The container's id stays reserved until they
    /// are removed.
    pub(crate) fn sweep(
        &mut self,
        key: u32,
        has_claimed: bool,
        of: &'static str,
        caller: Option<Caller>,
        why: Status,
    ) {
        let Some(task) = self.tasks.of_process(key) else { return };
        let (place, rootfs) = (task.place(), format!("{}/rootfs", task.bundle));
        let kind = Kind::Sweep { task: key, of, caller, why: why.clone() };
        let job = Job { command: "delete", caller: None, kind };
        let begun = self.begin(&place.id, job, None, |work| match has_claimed {
            true => task::remove(work, &place, &rootfs),
            false => task::remove_unclaimed(work, &place, &rootfs),
        });
        self.set_unswept(key, has_claimed);
        if begun.is_err() {
            self.swept(key, of, caller, why);
        }
    }

    fn set_unswept(&mut self, key: u32, is_unswept: bool) {
        if let Some(task) = self.tasks.task_of_process_mut(key) {
            task.is_unswept = is_unswept;
        }
    }

    /// Handles the exit of the worker that sweeps.
    pub(crate) fn sweep_ended(
        &mut self,
        key: u32,
        of: &'static str,
        caller: Option<Caller>,
        why: Status,
        result: Result<Vec<u8>, Status>,
    ) {
        match result {
            Ok(_) => self.set_unswept(key, false),
            // Delete will try to sweep again.
            Err(status) => {
                self.daemon.log.warning(format_args!("sweep: {}", status.message));
                let task = self.tasks.task_of_process_mut(key);
                for deleter in task.map(|task| take(&mut task.deleters)).unwrap_or_default() {
                    self.answer(deleter, Err(failed_as("delete", status.clone())));
                }
            }
        }
        self.swept(key, of, caller, why);
    }

    /// Answers the call that failed to create or restore a container. Called after the sweep, whether
    /// or not the sweep succeeded.
    fn swept(&mut self, key: u32, of: &'static str, caller: Option<Caller>, why: Status) {
        match self.tasks.of_process(key).map(Task::init) {
            Some(init) if init.stage == Stage::Starting => self.not_started(init.key),
            _ => self.forget(key),
        }
        if let Some(caller) = caller {
            self.answer(caller, Err(failed_as(of, why)));
        }
    }
}

/// Removes what killed `delete` commands have left in the daemon's namespace: the state and the cgroups of stopped
/// containers whose bundle is gone, and their shims' sockets. containerd does not repeat such a command. Called by a
/// shim that is about to exit, when nobody waits for it any more.
pub(crate) fn sweep_abandoned(daemon: &Daemon) {
    let root = state_root(&daemon.options.root, &daemon.namespace);
    let bundles = daemon.bundle.rsplit_once('/').map_or("", |(above, _)| above);
    // `Store::open` would create the root.
    let is_there = |path| access(path, Access::EXISTS).is_ok();
    if !is_there(root.as_str()) || !is_there(bundles) {
        return;
    }
    let warn = |text: &str| daemon.log.warning(text);
    let sockets = daemon.socket_path.rsplit_once('/').map(|(directory, _)| directory);
    let remove_socket = |state: &State| {
        let group = group::among(|name| state.annotations.get(name)).unwrap_or(&state.id);
        let path = address::path(sockets, &daemon.grpc_address, &daemon.namespace, group);
        if let Err(error) = socket::remove_abandoned(&path) {
            warn(&error.to_string());
        }
    };
    let swept = Store::open(&root, daemon.trace).and_then(|store| {
        store.delete_abandoned(bundles, remove_socket, Warn { record: &warn, print: &warn })
    });
    if let Err(error) = swept {
        warn(&error.to_string());
    }
}
