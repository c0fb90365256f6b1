//! Telling containerd what happens to tasks, over ttrpc.
//!
//! | part | what |
//! |---|---|
//! | [`Event`] | what happened |
//! | [`Publisher`] | the queue, and the connection to containerd, which comes and goes |
//! | `queue` | what is kept while containerd is away, and what not |
//! | `doorway` | being told when the socket is there |

mod doorway;
mod publisher;
mod queue;

use proto::message::Packed;
use proto::messages::any::Any;
use proto::messages::events::{
    TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskOOM,
    TaskPaused, TaskResumed, TaskStart, topic,
};
use proto::messages::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

pub use publisher::Publisher;
pub(crate) use publisher::dial;

/// Something that happened, and its topic (core/runtime/events.go of containerd).
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    topic: &'static str,
    event: Any,
    weight: Weight,
}

/// How much is lost with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Nothing that containerd acts on: it tells of a call that was answered.
    Incidental,
    /// The exit of an additional process, which `State` and `Wait` tell, too, until it is deleted.
    OfExec,
    /// The exit or the end of a container; its want of memory, which nothing else tells.
    Main,
}

impl Event {
    fn new<M: Packed>(topic: &'static str, weight: Weight, message: &M) -> Self {
        Self { topic, event: Any::pack(message), weight }
    }

    /// A container was created.
    pub fn create(event: &TaskCreate) -> Self {
        Self::new(topic::TASK_CREATE, Weight::Incidental, event)
    }

    /// A container was started.
    pub fn start(container: &str, pid: u32) -> Self {
        let event = TaskStart { container_id: container.into(), pid };
        Self::new(topic::TASK_START, Weight::Incidental, &event)
    }

    /// An additional process is to be, not started yet.
    pub fn exec_added(container: &str, exec: &str) -> Self {
        let event = TaskExecAdded { container_id: container.into(), exec_id: exec.into() };
        Self::new(topic::TASK_EXEC_ADDED, Weight::Incidental, &event)
    }

    /// An additional process was started.
    pub fn exec_started(container: &str, exec: &str, pid: u32) -> Self {
        let event = TaskExecStarted { container_id: container.into(), exec_id: exec.into(), pid };
        Self::new(topic::TASK_EXEC_STARTED, Weight::Incidental, &event)
    }

    /// A process has ended: the container's first one, which has the container's id as its own, or without `exec`;
    /// or the additional one of the id `exec`. `status` is as a shell has it, 128 + signal for one that was killed.
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

    /// A container was deleted, of which this was the first process. Of the deletion of additional processes
    /// containerd is not told by its own shim, either.
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

    /// Processes of the container were killed for want of memory.
    pub fn oom(container: &str) -> Self {
        let event = TaskOOM { container_id: container.into() };
        Self::new(topic::TASK_OOM, Weight::Main, &event)
    }

    /// A container was paused.
    pub fn paused(container: &str) -> Self {
        let event = TaskPaused { container_id: container.into() };
        Self::new(topic::TASK_PAUSED, Weight::Incidental, &event)
    }

    /// A container goes on.
    pub fn resumed(container: &str) -> Self {
        let event = TaskResumed { container_id: container.into() };
        Self::new(topic::TASK_RESUMED, Weight::Incidental, &event)
    }

    /// A container was checkpointed into the directory `checkpoint`.
    pub fn checkpointed(container: &str, checkpoint: &str) -> Self {
        let event =
            TaskCheckpointed { container_id: container.into(), checkpoint: checkpoint.into() };
        Self::new(topic::TASK_CHECKPOINTED, Weight::Incidental, &event)
    }
}

/// Now, by CLOCK_REALTIME.
pub fn now() -> Timestamp {
    let time = clock_gettime(ClockId::Realtime);
    Timestamp { seconds: time.tv_sec, nanos: i32::try_from(time.tv_nsec).unwrap_or(0) }
}

#[cfg(test)]
mod tests;
