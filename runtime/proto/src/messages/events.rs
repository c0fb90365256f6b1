//! What a shim tells containerd without having been asked: an event in an [`Any`], in
//! an [`Envelope`], in a [`ForwardRequest`] to the service [`SERVICE`], which answers
//! [`Empty`](crate::messages::time::Empty).

use alloc::string::String;
use alloc::vec::Vec;

use crate::messages::any::Any;
use crate::messages::mount::Mount;
use crate::messages::time::Timestamp;

/// The service that takes events, at containerd's own ttrpc socket.
pub const SERVICE: &str = "containerd.services.events.ttrpc.v1.Events";
/// Its only call.
pub const FORWARD: &str = "Forward";

/// What events are about: an [`Envelope`]'s `topic` (core/runtime/events.go).
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
        /// What is to be published.
        1 => envelope: Option<Envelope>,
    }

    /// `containerd.types.Envelope`.
    pub struct Envelope = "containerd.types.Envelope" {
        /// When it happened.
        1 => timestamp: Option<Timestamp>,
        /// containerd's namespace.
        2 => namespace: String,
        /// One of [`topic`].
        3 => topic: String,
        /// One of the messages below.
        4 => event: Option<Any>,
    }

    /// `containerd.events.TaskCreate`: a container was created.
    pub struct TaskCreate = "containerd.events.TaskCreate" {
        /// The container.
        1 => container_id: String,
        /// Its bundle.
        2 => bundle: String,
        /// What was mounted.
        3 => rootfs: Vec<Mount>,
        /// Its standard streams.
        4 => io: Option<TaskIO>,
        /// The checkpoint that it was restored from.
        5 => checkpoint: String,
        /// Its first process.
        6 => pid: u32,
    }

    /// `containerd.events.TaskStart`: a container was started.
    pub struct TaskStart = "containerd.events.TaskStart" {
        /// The container.
        1 => container_id: String,
        /// Its first process.
        2 => pid: u32,
    }

    /// `containerd.events.TaskDelete`: a container, or a process of it, was removed.
    pub struct TaskDelete = "containerd.events.TaskDelete" {
        /// The container.
        1 => container_id: String,
        /// The process that was.
        2 => pid: u32,
        /// How it ended.
        3 => exit_status: u32,
        /// When it ended.
        4 => exited_at: Option<Timestamp>,
        /// What was started by Exec; empty for the container itself.
        5 => id: String,
    }

    /// `containerd.events.TaskIO`: standard streams, as they were asked for.
    pub struct TaskIO = "containerd.events.TaskIO" {
        /// Where input comes from.
        1 => stdin: String,
        /// Where output goes.
        2 => stdout: String,
        /// Where errors go.
        3 => stderr: String,
        /// Whether they are a terminal's.
        4 => terminal: bool,
    }

    /// `containerd.events.TaskExit`: a process has ended.
    pub struct TaskExit = "containerd.events.TaskExit" {
        /// The container.
        1 => container_id: String,
        /// What was started by Exec; for the first process the container once more.
        2 => id: String,
        /// The process that was.
        3 => pid: u32,
        /// How it ended.
        4 => exit_status: u32,
        /// When it ended.
        5 => exited_at: Option<Timestamp>,
    }

    /// `containerd.events.TaskOOM`: the OOM killer has killed a process of a container.
    pub struct TaskOOM = "containerd.events.TaskOOM" {
        /// The container.
        1 => container_id: String,
    }

    /// `containerd.events.TaskExecAdded`: Exec has prepared a process.
    pub struct TaskExecAdded = "containerd.events.TaskExecAdded" {
        /// The container.
        1 => container_id: String,
        /// The process's name.
        2 => exec_id: String,
    }

    /// `containerd.events.TaskExecStarted`: it was started.
    pub struct TaskExecStarted = "containerd.events.TaskExecStarted" {
        /// The container.
        1 => container_id: String,
        /// The process's name.
        2 => exec_id: String,
        /// The process.
        3 => pid: u32,
    }

    /// `containerd.events.TaskPaused`: a container was frozen.
    pub struct TaskPaused = "containerd.events.TaskPaused" {
        /// The container.
        1 => container_id: String,
    }

    /// `containerd.events.TaskResumed`: a container was thawed.
    pub struct TaskResumed = "containerd.events.TaskResumed" {
        /// The container.
        1 => container_id: String,
    }

    /// `containerd.events.TaskCheckpointed`: a checkpoint was made.
    pub struct TaskCheckpointed = "containerd.events.TaskCheckpointed" {
        /// The container.
        1 => container_id: String,
        /// The directory of the checkpoint.
        2 => checkpoint: String,
    }
}
