//! The events that a shim sends to containerd. Each event is sent in an [`Any`], which is part of an [`Envelope`]. The
//! envelope is sent in a [`ForwardRequest`] to the service [`SERVICE`], which answers
//! [`Empty`](crate::messages::time::Empty).

use alloc::string::String;
use alloc::vec::Vec;

use crate::messages::any::Any;
use crate::messages::mount::Mount;
use crate::messages::time::Timestamp;

/// The service that receives events. containerd provides it on its own ttrpc socket.
pub const SERVICE: &str = "containerd.services.events.ttrpc.v1.Events";
/// The only call of the service.
pub const FORWARD: &str = "Forward";

/// The topics of events, for the field `topic` of [`Envelope`] (core/runtime/events.go).
pub mod topic {
    /// [`TaskCreate`](super::TaskCreate).
    pub const TASK_CREATE: &str = "/tasks/create";
    /// [`TaskStart`](super::TaskStart).
    pub const TASK_START: &str = "/tasks/start";
    /// [`TaskOOM`](super::TaskOOM).
    pub const TASK_OOM: &str = "/tasks/oom";
    /// [`TaskExit`](super::TaskExit).
    pub const TASK_EXIT: &str = "/tasks/exit";
    /// [`TaskDelete`](super::TaskDelete).
    pub const TASK_DELETE: &str = "/tasks/delete";
    /// [`TaskExecAdded`](super::TaskExecAdded).
    pub const TASK_EXEC_ADDED: &str = "/tasks/exec-added";
    /// [`TaskExecStarted`](super::TaskExecStarted).
    pub const TASK_EXEC_STARTED: &str = "/tasks/exec-started";
    /// [`TaskPaused`](super::TaskPaused).
    pub const TASK_PAUSED: &str = "/tasks/paused";
    /// [`TaskResumed`](super::TaskResumed).
    pub const TASK_RESUMED: &str = "/tasks/resumed";
    /// [`TaskCheckpointed`](super::TaskCheckpointed).
    pub const TASK_CHECKPOINTED: &str = "/tasks/checkpointed";
}

message! {
    /// `containerd.services.events.ttrpc.v1.ForwardRequest`.
    pub struct ForwardRequest {
        /// The event to publish.
        1 => envelope: Option<Envelope>,
    }

    /// `containerd.types.Envelope`.
    pub struct Envelope = "containerd.types.Envelope" {
        /// The time of the event.
        1 => timestamp: Option<Timestamp>,
        /// containerd's namespace.
        2 => namespace: String,
        /// One of [`topic`].
        3 => topic: String,
        /// The event: one of the messages below.
        4 => event: Option<Any>,
    }

    /// `containerd.events.TaskCreate`: a container was created.
    pub struct TaskCreate = "containerd.events.TaskCreate" {
        /// The container's id.
        1 => container_id: String,
        /// The container's bundle.
        2 => bundle: String,
        /// The mounts of the root filesystem.
        3 => rootfs: Vec<Mount>,
        /// The standard streams of the container's first process.
        4 => io: Option<TaskIO>,
        /// The checkpoint from which the container was restored.
        5 => checkpoint: String,
        /// The pid of the container's first process.
        6 => pid: u32,
    }

    /// `containerd.events.TaskStart`: a container was started.
    pub struct TaskStart = "containerd.events.TaskStart" {
        /// The container's id.
        1 => container_id: String,
        /// The pid of the container's first process.
        2 => pid: u32,
    }

    /// `containerd.events.TaskDelete`: a container, or one of its processes, was removed.
    pub struct TaskDelete = "containerd.events.TaskDelete" {
        /// The container's id.
        1 => container_id: String,
        /// The pid of the removed process.
        2 => pid: u32,
        /// The exit status of the process.
        3 => exit_status: u32,
        /// The time at which the process exited.
        4 => exited_at: Option<Timestamp>,
        /// The exec id; empty for the container itself.
        5 => id: String,
    }

    /// `containerd.events.TaskIO`: the standard streams, as requested by the client.
    pub struct TaskIO = "containerd.events.TaskIO" {
        /// The source of standard input.
        1 => stdin: String,
        /// The sink of standard output.
        2 => stdout: String,
        /// The sink of standard error.
        3 => stderr: String,
        /// Whether the streams belong to a terminal.
        4 => terminal: bool,
    }

    /// `containerd.events.TaskExit`: a process has exited.
    pub struct TaskExit = "containerd.events.TaskExit" {
        /// The container's id.
        1 => container_id: String,
        /// The exec id, or for the first process the container's id.
        2 => id: String,
        /// The pid of the exited process.
        3 => pid: u32,
        /// The exit status of the process.
        4 => exit_status: u32,
        /// The time at which the process exited.
        5 => exited_at: Option<Timestamp>,
    }

    /// `containerd.events.TaskOOM`: the OOM killer has killed a process of a container.
    pub struct TaskOOM = "containerd.events.TaskOOM" {
        /// The container's id.
        1 => container_id: String,
    }

    /// `containerd.events.TaskExecAdded`: Exec has prepared a process.
    pub struct TaskExecAdded = "containerd.events.TaskExecAdded" {
        /// The container's id.
        1 => container_id: String,
        /// The process's exec id.
        2 => exec_id: String,
    }

    /// `containerd.events.TaskExecStarted`: a process prepared by Exec was started.
    pub struct TaskExecStarted = "containerd.events.TaskExecStarted" {
        /// The container's id.
        1 => container_id: String,
        /// The process's exec id.
        2 => exec_id: String,
        /// The process's pid.
        3 => pid: u32,
    }

    /// `containerd.events.TaskPaused`: a container was frozen.
    pub struct TaskPaused = "containerd.events.TaskPaused" {
        /// The container's id.
        1 => container_id: String,
    }

    /// `containerd.events.TaskResumed`: a container was thawed.
    pub struct TaskResumed = "containerd.events.TaskResumed" {
        /// The container's id.
        1 => container_id: String,
    }

    /// `containerd.events.TaskCheckpointed`: a checkpoint of a container was written.
    pub struct TaskCheckpointed = "containerd.events.TaskCheckpointed" {
        /// The container's id.
        1 => container_id: String,
        /// The directory that contains the checkpoint.
        2 => checkpoint: String,
    }
}
