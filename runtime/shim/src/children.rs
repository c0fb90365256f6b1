//! Children: finished workers and exited processes, and the order in which their exits are reported.
//!
//! The exit event of a process waits for its start event, and that of init for those of all execs (`tell`). If the
//! container has no PID namespace of its own, a worker first kills the remaining processes (`Clearing`).

use alloc::vec::Vec;

use proto::messages::events::TaskCreate;
use proto::messages::task::{CreateTaskResponse, StartResponse};
use proto::messages::time::Empty;
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, WaitOptions, pidfd_open, wait, waitid,
};
use sys::Context;

use crate::bootstrap::bundle::{self, BundleState};
use crate::caller::failed_as;
use crate::event::Event;
use crate::oom;
use crate::shim::{PendingDelete, Shim};
use crate::table::{Clearing, Exit, Stage};
use crate::task::{self, CreateAnswer};
use crate::worker::{Job, Kind, Report, Worker, made};

/// Returns whether the status means that an operation was cut off: its worker was killed, or its
/// deadline passed. It is then unknown which steps of the operation were completed.
fn is_cut_off(status: &Status) -> bool {
    matches!(status.code, code::ABORTED | code::DEADLINE_EXCEEDED)
}

/// Returns the status for a Create call whose container was deleted before the creation ended.
fn deleted() -> Status {
    Status::aborted("deleted before its creation ended")
}

/// Returns whether a child with this pid exists, even if it has exited and is not reaped yet.
fn is_child(pid: u32) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(pid.cast_signed()).is_some_and(|pid| waitid(WaitId::Pid(pid), look).is_ok())
}

impl Shim {
    /// Reaps all children that have exited.
    pub(crate) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let (pid, exit) = (pid.as_raw_pid().unsigned_abs(), Exit::now(status));
            let is_it = |worker: &Worker| worker.child.pid.as_raw_pid().unsigned_abs() == pid;
            match self.workers.iter().position(is_it) {
                Some(at) => {
                    let worker = self.workers.swap_remove(at);
                    self.finish(worker);
                }
                None => self.ended(pid, exit),
            }
        }
        // Without a running worker, no answer can report these children as processes of a container: they are orphans
        // from a container without its own PID namespace.
        if self.workers.is_empty() {
            self.strays.clear();
        }
    }

    /// Handles the exit of a child that is not a worker.
    fn ended(&mut self, pid: u32, exit: Exit) {
        match self.tasks.by_pid_mut(pid) {
            Some(process) => {
                process.ended = Some(exit);
                process.streams.ended(&self.poller);
                let key = process.key;
                self.tell(key);
            }
            None => self.strays.push((pid, exit)),
        }
    }

    /// Handles the exit of a worker.
    fn finish(&mut self, worker: Worker) {
        let Report { has_claimed, result } = worker.report();
        let Job { command, caller, kind } = worker.job;
        let result = match kind {
            Kind::Answer => result,
            Kind::Create { task, is_admitted } => match result {
                Err(why) if is_cut_off(&why) => {
                    return self.sweep(task, has_claimed, command, caller, why);
                }
                Ok(_) if self.is_deleted(task) => {
                    return self.sweep(task, has_claimed, command, caller, deleted());
                }
                result if is_admitted => {
                    result.map(|_| self.admitted(task)).inspect_err(|_| self.forget(task))
                }
                result => self.created(task, result),
            },
            Kind::Restore { process } => match (result, self.tasks.of_process(process)) {
                (Err(why), Some(task)) if is_cut_off(&why) => {
                    return self.sweep(task.init().key, has_claimed, command, caller, why);
                }
                (result, _) => self.restored(process, result),
            },
            Kind::Sweep { task, of, caller, why } => {
                return self.sweep_ended(task, of, caller, why, result);
            }
            Kind::Start { process } => self.started(process, result.map(|_| None)),
            Kind::Exec { process } => self.started(process, result.map(|answer| made(&answer))),
            Kind::Freeze { task, on } => result.map(|_| self.frozen(task, on)),
            Kind::Checkpoint { task, images } => result.map(|_| {
                if let Some(id) = self.tasks.of_process(task).map(|task| task.id.clone()) {
                    self.publish(Event::checkpointed(&id, &images));
                }
                Empty {}.encode()
            }),
            Kind::Clear { task } => return self.cleared(task),
            Kind::Delete { task } => match (result, self.tasks.of_process(task)) {
                (Ok(_), Some(_)) => {
                    if let Some(caller) = caller {
                        let delete = PendingDelete { caller, process: task };
                        self.await_output(delete);
                    }
                    return;
                }
                (Ok(_), None) => Err(Status::not_found("container: not found")),
                (result, _) => result,
            },
        };
        if let Some(caller) = caller {
            self.answer(caller, result.map_err(|status| failed_as(command, status)));
        }
    }

    fn created(&mut self, key: u32, result: Result<Vec<u8>, Status>) -> Result<Vec<u8>, Status> {
        let made = match result.and_then(|answer| CreateAnswer::decode(&answer)) {
            Ok(made) => made,
            Err(status) => {
                self.forget(key);
                return Err(status);
            }
        };
        let pid = made.pid;
        self.adopt(key, made)?;
        self.tell_of_creation(key, pid);
        self.set_stage(key, Stage::Created);
        self.tell(key);
        Ok(CreateTaskResponse { pid }.encode())
    }

    /// Completes the Create call of a container that Start will restore. The container's root
    /// filesystem is now mounted.
    pub(crate) fn admitted(&mut self, key: u32) -> Vec<u8> {
        self.set_stage(key, Stage::Created);
        self.tell_of_creation(key, 0);
        CreateTaskResponse { pid: 0 }.encode()
    }

    /// Publishes the event of a container's creation.
    fn tell_of_creation(&mut self, key: u32, pid: u32) {
        let created = self.tasks.task_of_process_mut(key).and_then(|task| task.created.take());
        if let Some(created) = created {
            self.publish(Event::create(&TaskCreate { pid, ..created }));
        }
    }

    /// Kills the worker that restores a container. The worker's exit is then handled like that of any other worker.
    pub(crate) fn end_restore(&mut self, key: u32) {
        let is_its = |worker: &&Worker| matches!(worker.job.kind, Kind::Restore { process } if process == key);
        if let Some(worker) = self.workers.iter().find(is_its) {
            let _ = sys::signal::send(worker.child.pidfd.as_fd(), 9);
        }
    }

    /// Handles the end of a restore. If the restore succeeded, init and all other processes of the
    /// container are running.
    fn restored(&mut self, key: u32, result: Result<Vec<u8>, Status>) -> Result<Vec<u8>, Status> {
        let made = result.and_then(|answer| CreateAnswer::decode(&answer));
        let adopted = made.and_then(|made| self.adopt(key, made));
        self.started(key, adopted.map(|()| None))
    }

    /// Stores what a worker has reported about the container that it created.
    fn adopt(&mut self, key: u32, made: CreateAnswer) -> Result<(), Status> {
        let CreateAnswer { pid, owns_pid_namespace, starts_plainly, cgroup } = made;
        self.born(key, pid);
        let Some(task) = self.tasks.task_of_process_mut(key) else {
            return Err(Status::not_found("container"));
        };
        task.owns_pid_namespace = owns_pid_namespace;
        task.starts_plainly = starts_plainly;
        task.cgroup = cgroup;
        if let Some(location) = &task.cgroup {
            match oom::Watch::begin(location) {
                Ok(watch) => task.oom = watch,
                Err(error) => self.daemon.log.warning(format_args!("{}: {error}", task.id)),
            }
        }
        if let Some(watch) = &mut task.oom
            && let Err(error) = watch.register(&self.poller, key)
        {
            self.daemon.log.warning(format_args!("{}: {error}", task.id));
        }
        Ok(())
    }

    /// Handles the end of a start. If the start succeeded, init runs its program, or the process of
    /// an exec was created.
    pub(crate) fn started(
        &mut self,
        key: u32,
        result: Result<Option<u32>, Status>,
    ) -> Result<Vec<u8>, Status> {
        let pid = match result {
            Ok(new) => {
                if let Some(pid) = new {
                    self.born(key, pid);
                }
                new
            }
            Err(status) => {
                match is_cut_off(&status) {
                    true => self.kill(key),
                    false if self.is_due(key) => {
                        // The container is frozen. It can be started once it is thawed.
                        self.set_stage(key, Stage::Created);
                        self.tell(key);
                        return Err(status);
                    }
                    false => {}
                }
                self.not_started(key);
                return Err(status);
            }
        };
        let Some(task) = self.tasks.task_of_process_mut(key) else {
            return Err(Status::not_found("container"));
        };
        if task.clearing == Clearing::Done {
            // This process was started while the container's other processes were being killed. It
            // may have survived, so the processes must be killed again.
            task.clearing = Clearing::Due;
        }
        let id = task.id.clone();
        let process = self.tasks.by_key_mut(key).ok_or_else(|| Status::not_found("process"))?;
        process.stage = Stage::Running;
        let (exec_id, number) = (process.exec_id.clone(), process.pid);
        match pid {
            None => self.publish(Event::start(&id, number)),
            Some(pid) => {
                self.publish(Event::exec_started(&id, &exec_id, pid));
            }
        }
        self.tell(key);
        Ok(StartResponse { pid: number }.encode())
    }

    /// Kills an init whose start may not have completed.
    fn kill(&mut self, key: u32) {
        if let Some(process) = self.tasks.by_key_mut(key)
            && let Some(pidfd) = &process.pidfd
        {
            let _ = sys::signal::send(pidfd.as_fd(), 9);
        }
    }

    /// Handles a failed start. If the start of a created container failed, init has exited or is about
    /// to exit. If an exec or a restore failed, no process was created.
    pub(crate) fn not_started(&mut self, key: u32) {
        let Some(process) = self.tasks.by_key_mut(key) else { return };
        if process.pid != 0 {
            process.stage = Stage::Running;
        } else {
            process.streams.abandon(&self.poller);
            process.exit = Some(Exit { status: 255, at: crate::table::Time::now() });
            process.stage = Stage::Stopped;
            self.answer_waiters(key);
        }
        self.tell(key);
    }

    /// Handles the creation of a process: stores its pid, and receives its terminal.
    fn born(&mut self, key: u32, pid: u32) {
        // If a child with this pid still exists, a stray exit with this pid belongs to an earlier process.
        let stray = match is_child(pid) {
            true => None,
            false => self.strays.iter().rposition(|(number, _)| *number == pid),
        };
        let stray = stray.map(|at| self.strays.swap_remove(at).1);
        let Some(process) = self.tasks.by_key_mut(key) else { return };
        process.pid = pid;
        // The process's pid cannot be reused until the process is reaped, which only this shim can do.
        let number = Pid::from_raw(pid.cast_signed()).filter(|_| stray.is_none());
        process.pidfd = number.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        if let Some(socket) = process.console.take() {
            let received = sys::fdpass::receive_now(socket.as_fd(), &mut [0; 64]);
            let master = received.and_then(|(_, master)| master.ok_or(Errno::PROTO));
            let master = master.context("receive", "terminal").map_err(crate::io::Error::from);
            let taken =
                master.and_then(|master| process.streams.take_terminal(&self.poller, master));
            if let Err(error) = taken {
                // Without a terminal, nothing would end the output, for which clients wait.
                process.streams.abandon(&self.poller);
                self.daemon.log.warning(format_args!("terminal of {pid}: {error}"));
            }
        }
        if let Some(exit) = stray {
            process.ended = Some(exit);
            process.streams.ended(&self.poller);
        }
    }

    fn set_stage(&mut self, key: u32, stage: Stage) {
        if let Some(process) = self.tasks.by_key_mut(key) {
            process.stage = stage;
        }
    }

    fn frozen(&mut self, key: u32, on: bool) -> Vec<u8> {
        if let Some(task) = self.tasks.task_of_process_mut(key) {
            task.is_paused = on;
            let id = task.id.clone();
            match on {
                true => self.publish(Event::paused(&id)),
                false => self.publish(Event::resumed(&id)),
            }
        }
        Empty {}.encode()
    }

    /// Reports the exit of a process, unless the report must wait. While the start of a process is pending, its exit is
    /// not reported. The exit of init is reported after the exits of all other processes of the container.
    pub(crate) fn tell(&mut self, key: u32) {
        let Some(task) = self.tasks.of_process(key) else { return };
        let init = task.init().key;
        if key != init {
            self.tell_one(key);
        }
        self.tell_init(init);
    }

    fn tell_init(&mut self, init: u32) {
        let Some(task) = self.tasks.of_process(init) else { return };
        if task.init().ended.is_none() {
            return;
        }
        if !task.owns_pid_namespace && task.clearing != Clearing::Done {
            return self.clear(init);
        }
        let mut others = task.processes.iter().skip(1);
        if !others.any(|process| process.stage == Stage::Starting || process.is_alive()) {
            self.tell_one(init);
        }
    }

    /// Kills the processes that do not end with init, including those that are not in the shim's table.
    fn clear(&mut self, init: u32) {
        let Some(task) = self.tasks.task_of_process_mut(init) else { return };
        if task.clearing != Clearing::Due {
            return;
        }
        task.clearing = Clearing::UnderWay;
        let place = task.place();
        let job = Job { command: "kill", caller: None, kind: Kind::Clear { task: init } };
        let begun = self.begin(&place.id, job, None, |work| {
            work.store(&place)?.container(&place.id)?.kill(9)?;
            Ok(Vec::new())
        });
        if begun.is_err() {
            self.cleared(init);
        }
    }

    /// Handles the exit of the worker that [`clear`](Self::clear) has started, whether or not the worker could kill the
    /// processes. Init's exit is reported as soon as the processes in the table have exited.
    fn cleared(&mut self, key: u32) {
        let Some(task) = self.tasks.task_of_process_mut(key) else { return };
        task.clearing = Clearing::Done;
        self.tell(key);
    }

    fn tell_one(&mut self, key: u32) {
        let Some(task) = self.tasks.of_process(key) else { return };
        let (id, is_init) = (task.id.clone(), task.init().key == key);
        let Some(process) = self.tasks.by_key_mut(key) else { return };
        if matches!(process.stage, Stage::Creating | Stage::Starting) {
            return;
        }
        let Some(exit) = process.ended.take() else { return };
        process.exit = Some(exit);
        process.stage = Stage::Stopped;
        process.pidfd = None;
        let (pid, exec_id) = (process.pid, process.exec_id.clone());
        if is_init {
            self.note_exit(key, pid, exit);
            self.tell_of_kills(key, true);
        }
        let at = exit.at.to_message();
        self.publish(Event::exit(&id, &exec_id, pid, exit.status, at));
        self.answer_waiters(key);
    }

    /// Writes init's exit to the bundle state, which `delete` reads if this shim dies.
    fn note_exit(&self, key: u32, pid: u32, exit: Exit) {
        let Some(task) = self.tasks.of_process(key) else { return };
        let (status, at) = (exit.status, exit.at.nanoseconds());
        let exit = Some(bundle::Exit { pid, status, at });
        let state = BundleState { root: task.root.clone(), exit };
        if let Err(error) = state.write(&task.bundle) {
            self.daemon.log.warning(error);
        }
    }

    /// Publishes a TaskOOM event if the container's OOM watch has counted new kills.
    pub(crate) fn tell_of_kills(&mut self, key: u32, is_last: bool) {
        let Some(task) = self.tasks.task_of_process_mut(key) else { return };
        let Some(watch) = &mut task.oom else { return };
        let kills = if is_last { watch.check() } else { watch.ready(&self.poller) };
        if is_last && let Some(watch) = task.oom.take() {
            watch.end(&self.poller);
        }
        let id = task.id.clone();
        // One event for any number of kills, as in containerd's own shim.
        let kills = kills.unwrap_or_else(|error| {
            self.daemon.log.warning(format_args!("{id}: {error}"));
            0
        });
        if kills > 0 {
            self.publish(Event::oom(&id));
        }
    }

    fn answer_waiters(&mut self, key: u32) {
        let Some(process) = self.tasks.by_key_mut(key) else { return };
        let Some(exit) = process.exit else { return };
        for caller in core::mem::take(&mut process.waiters) {
            self.answer(caller, Ok(task::waited(exit)));
        }
    }

    /// Answers the Delete calls of processes whose output has been copied to the end, and Delete
    /// calls whose time limit has passed.
    pub(crate) fn end_drained(&mut self) {
        let mut at = 0;
        while let Some((delete, deadline)) = self.pending_deletes.get(at).copied() {
            let process = self.tasks.by_key_mut(delete.process);
            let is_due = process.is_none_or(|process| process.streams.is_drained());
            if is_due || deadline.left().is_none() {
                self.pending_deletes.swap_remove(at);
                self.end(delete);
            } else {
                at += 1;
            }
        }
    }

    /// Removes a process from the table and answers its Delete call. If the process is a container's init, the
    /// container is removed as well.
    fn end(&mut self, delete: PendingDelete) {
        let Some(task) = self.tasks.of_process(delete.process) else {
            return self.answer(delete.caller, Err(Status::not_found("process")));
        };
        let (is_init, id) = (task.init().key == delete.process, task.id.clone());
        let Some(process) = task.processes.iter().find(|process| process.key == delete.process)
        else {
            return;
        };
        let response = task::deleted(process);
        if !is_init {
            if let Some(process) = self.tasks.remove_process(delete.process) {
                self.give_up(process);
            }
        } else {
            self.forget(delete.process);
            let at = response.exited_at.clone().unwrap_or_default();
            let event = Event::delete(&id, response.pid, response.exit_status, at);
            self.publish(event);
        }
        self.answer(delete.caller, Ok(response.encode()));
    }
}
