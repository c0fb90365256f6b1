//! Publishes task events to containerd, over ttrpc.
//!
//! | part | content |
//! |---|---|
//! | [`Event`] | an event |
//! | [`Publisher`] | the queue, and the connection to containerd, which may close and reopen |
//! | `queue` | events kept while containerd is not running |
//! | `socket_watch` | reports the creation of containerd's socket |

mod publisher;
mod queue;
mod socket_watch;

use proto::message::Packed;
use proto::messages::any::Any;
use proto::messages::events::{
    TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskOOM,
    TaskPaused, TaskResumed, TaskStart, topic,
};
use proto::messages::time::Timestamp;

pub use publisher::Publisher;
pub(crate) use publisher::dial;

/// An event and its topic (core/runtime/events.go in containerd).
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    topic: &'static str,
    event: Any,
    weight: Weight,
}

/// The severity of the loss of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// containerd does not act on the event. The event only reports that a call has completed, as the answer to the
    /// call does.
    Incidental,
    /// The exit of an additional process. Until the process is deleted, `State` and `Wait` also report its exit.
    OfExec,
    /// The exit or deletion of a container, which must not be lost, or an OOM event, which is reported in no other way.
    Main,
}

impl Event {
    fn new<M: Packed>(topic: &'static str, weight: Weight, message: &M) -> Self {
        Self { topic, event: Any::pack(message), weight }
    }

    /// Returns the event for a created container.
    pub fn create(event: &TaskCreate) -> Self {
        Self::new(topic::TASK_CREATE, Weight::Incidental, event)
    }

    /// Returns the event for a started container.
    pub fn start(container: &str, pid: u32) -> Self {
        let event = TaskStart { container_id: container.into(), pid };
        Self::new(topic::TASK_START, Weight::Incidental, &event)
    }

    /// Returns the event for an additional process that was prepared, but not started yet.
    pub fn exec_added(container: &str, exec: &str) -> Self {
        let event = TaskExecAdded { container_id: container.into(), exec_id: exec.into() };
        Self::new(topic::TASK_EXEC_ADDED, Weight::Incidental, &event)
    }

    /// Returns the event for an additional process that was started.
    pub fn exec_started(container: &str, exec: &str, pid: u32) -> Self {
        let event = TaskExecStarted { container_id: container.into(), exec_id: exec.into(), pid };
        Self::new(topic::TASK_EXEC_STARTED, Weight::Incidental, &event)
    }

    /// Returns the event for the exit of a process. An empty `exec`, or the container's id, means the container's first
    /// process; otherwise `exec` is the id of an additional process. `status` is the exit status as in a shell: 128 +
    /// signal if a signal killed the process.
    pub fn exit(container: &str, exec: &str, pid: u32, status: u32, time: Timestamp) -> Self {
        let is_first = exec.is_empty() || exec == container;
        let event = TaskExit {
            container_id: container.into(),
            id: if is_first { container } else { exec }.into(),
            pid,
            exit_status: status,
            exited_at: Some(time),
        };
        let weight = if is_first { Weight::Main } else { Weight::OfExec };
        Self::new(topic::TASK_EXIT, weight, &event)
    }

    /// Returns the event for a deleted container. The arguments describe the exit of its first process. As in
    /// containerd's own shim, there is no event for the deletion of additional processes.
    pub fn delete(container: &str, pid: u32, status: u32, time: Timestamp) -> Self {
        let event = TaskDelete {
            container_id: container.into(),
            pid,
            exit_status: status,
            exited_at: Some(time),
            ..TaskDelete::default()
        };
        Self::new(topic::TASK_DELETE, Weight::Main, &event)
    }

    /// Returns the event for OOM kills in a container.
    pub fn oom(container: &str) -> Self {
        let event = TaskOOM { container_id: container.into() };
        Self::new(topic::TASK_OOM, Weight::Main, &event)
    }

    /// Returns the event for a paused container.
    pub fn paused(container: &str) -> Self {
        let event = TaskPaused { container_id: container.into() };
        Self::new(topic::TASK_PAUSED, Weight::Incidental, &event)
    }

    /// Returns the event for a resumed container.
    pub fn resumed(container: &str) -> Self {
        let event = TaskResumed { container_id: container.into() };
        Self::new(topic::TASK_RESUMED, Weight::Incidental, &event)
    }

    /// Returns the event for a container whose checkpoint was written to the directory `checkpoint`.
    pub fn checkpointed(container: &str, checkpoint: &str) -> Self {
        let event =
            TaskCheckpointed { container_id: container.into(), checkpoint: checkpoint.into() };
        Self::new(topic::TASK_CHECKPOINTED, Weight::Incidental, &event)
    }
}

#[cfg(test)]
mod tests;
