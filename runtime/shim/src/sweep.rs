//! Sweep: removes what a killed worker has left of the container that it was creating or restoring.

use alloc::format;
use alloc::vec::Vec;

use proto::ttrpc::Status;

use crate::caller::{Caller, failed_as};
use crate::shim::Shim;
use crate::table::{Stage, Task};
use crate::task;
use crate::worker::{Job, Kind};

impl Shim {
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
        let Some(task) = self.tasks.by_key(key) else { return };
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
        if let Some(task) = self.tasks.task_by_key_mut(key) {
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
            }
        }
        self.swept(key, of, caller, why);
    }

    /// Answers the call that failed to create or restore a container. Called after the sweep, whether
    /// or not the sweep succeeded.
    fn swept(&mut self, key: u32, of: &'static str, caller: Option<Caller>, why: Status) {
        match self.tasks.by_key(key).map(Task::init) {
            Some(init) if init.stage == Stage::Starting => self.not_started(init.key),
            _ => self.forget(key),
        }
        if let Some(caller) = caller {
            self.answer(caller, Err(failed_as(of, why)));
        }
    }
}
