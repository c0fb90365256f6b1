//! The service that a shim offers: `containerd.task.v3.Task`, 17 calls. `containerd.task.v2.Task`, which
//! containerd 1.x calls, has the same calls and the same messages: the .proto files differ in the name of the
//! package alone.
//!
//! Pause, Resume, Checkpoint, Kill, Exec, ResizePty, CloseIO, Update and Shutdown answer
//! [`Empty`](crate::messages::time::Empty). In all requests `id` is the container; `exec_id` is what was started
//! in it by Exec, empty for its first process.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::messages::any::Any;
use crate::messages::mount::Mount;
use crate::messages::process::ProcessInfo;
use crate::messages::time::Timestamp;

/// The service's name, for containerd 2.
pub const SERVICE_V3: &str = "containerd.task.v3.Task";
/// The service's name, for containerd 1.
pub const SERVICE_V2: &str = "containerd.task.v2.Task";

/// A call of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// [`StateRequest`] → [`StateResponse`].
    State,
    /// [`CreateTaskRequest`] → [`CreateTaskResponse`].
    Create,
    /// [`StartRequest`] → [`StartResponse`].
    Start,
    /// [`DeleteRequest`] → [`DeleteResponse`].
    Delete,
    /// [`PidsRequest`] → [`PidsResponse`].
    Pids,
    /// [`PauseRequest`] → [`Empty`](crate::messages::time::Empty), as all that follow but Wait, Stats and Connect.
    Pause,
    /// [`ResumeRequest`].
    Resume,
    /// [`CheckpointTaskRequest`].
    Checkpoint,
    /// [`KillRequest`].
    Kill,
    /// [`ExecProcessRequest`].
    Exec,
    /// [`ResizePtyRequest`].
    ResizePty,
    /// [`CloseIORequest`].
    CloseIO,
    /// [`UpdateTaskRequest`].
    Update,
    /// [`WaitRequest`] → [`WaitResponse`].
    Wait,
    /// [`StatsRequest`] → [`StatsResponse`].
    Stats,
    /// [`ConnectRequest`] → [`ConnectResponse`].
    Connect,
    /// [`ShutdownRequest`].
    Shutdown,
}

impl Method {
    /// All of them, in the order of the .proto file.
    pub const ALL: [Self; 17] = [
        Self::State,
        Self::Create,
        Self::Start,
        Self::Delete,
        Self::Pids,
        Self::Pause,
        Self::Resume,
        Self::Checkpoint,
        Self::Kill,
        Self::Exec,
        Self::ResizePty,
        Self::CloseIO,
        Self::Update,
        Self::Wait,
        Self::Stats,
        Self::Connect,
        Self::Shutdown,
    ];

    /// Its name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "State",
            Self::Create => "Create",
            Self::Start => "Start",
            Self::Delete => "Delete",
            Self::Pids => "Pids",
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Checkpoint => "Checkpoint",
            Self::Kill => "Kill",
            Self::Exec => "Exec",
            Self::ResizePty => "ResizePty",
            Self::CloseIO => "CloseIO",
            Self::Update => "Update",
            Self::Wait => "Wait",
            Self::Stats => "Stats",
            Self::Connect => "Connect",
            Self::Shutdown => "Shutdown",
        }
    }

    /// The call of that name; `None` if the service has none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

message! {
    /// Create: makes a container that is not started yet.
    pub struct CreateTaskRequest {
        /// The container.
        1 => id: String,
        /// The directory with `config.json` and `rootfs`.
        2 => bundle: String,
        /// What is to be mounted on `rootfs` first; nothing if it is there already.
        3 => rootfs: Vec<Mount>,
        /// Whether the process has a terminal; then there is no stderr.
        4 => terminal: bool,
        /// Where input comes from: a FIFO's path or a URL (`fifo:`, `file:`, `binary:`); nowhere if empty.
        5 => stdin: String,
        /// Where output goes, likewise.
        6 => stdout: String,
        /// Where errors go, likewise.
        7 => stderr: String,
        /// The directory of a checkpoint to restore.
        8 => checkpoint: String,
        /// The directory of the checkpoint which that one is based on.
        9 => parent_checkpoint: String,
        /// [`Options`](crate::messages::options::Options), or the CRI's
        /// [`RuntimeOptions`](crate::messages::options::RuntimeOptions).
        10 => options: Option<Any>,
    }

    /// The answer to Create.
    pub struct CreateTaskResponse {
        /// The container's first process.
        1 => pid: u32,
    }

    /// Delete: removes what has ended.
    pub struct DeleteRequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
    }

    /// The answer to Delete.
    pub struct DeleteResponse {
        /// The process that was.
        1 => pid: u32,
        /// How it ended: its status, or 128 and the signal.
        2 => exit_status: u32,
        /// When it ended.
        3 => exited_at: Option<Timestamp>,
    }

    /// Exec: prepares another process, which Start starts.
    pub struct ExecProcessRequest {
        /// The container.
        1 => id: String,
        /// The name that the process shall have.
        2 => exec_id: String,
        /// Whether it has a terminal.
        3 => terminal: bool,
        /// Where input comes from, as in [`CreateTaskRequest`].
        4 => stdin: String,
        /// Where output goes.
        5 => stdout: String,
        /// Where errors go.
        6 => stderr: String,
        /// The `process` of the runtime specification in JSON
        /// ([`specs::PROCESS`](crate::messages::specs::PROCESS)).
        7 => spec: Option<Any>,
    }

    /// ResizePty: sets the size of a process's terminal.
    pub struct ResizePtyRequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
        /// Columns.
        3 => width: u32,
        /// Rows.
        4 => height: u32,
    }

    /// State: asks how a process is.
    pub struct StateRequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
    }

    /// The answer to State.
    pub struct StateResponse {
        /// The container; for what was started by Exec, that name.
        1 => id: String,
        /// The container's bundle.
        2 => bundle: String,
        /// The process, as the host numbers it.
        3 => pid: u32,
        /// One of [`status`](crate::messages::process::status).
        4 => status: i32,
        /// Where input comes from, as it was asked for.
        5 => stdin: String,
        /// Where output goes.
        6 => stdout: String,
        /// Where errors go.
        7 => stderr: String,
        /// Whether it has a terminal.
        8 => terminal: bool,
        /// How it ended.
        9 => exit_status: u32,
        /// When it ended; none while it has not.
        10 => exited_at: Option<Timestamp>,
        /// What the request had.
        11 => exec_id: String,
    }

    /// Kill: sends a signal.
    pub struct KillRequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
        /// The signal's number.
        3 => signal: u32,
        /// Whether all processes of the container get it.
        4 => all: bool,
    }

    /// CloseIO: closes the shim's end of a stream.
    pub struct CloseIORequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
        /// Whether it is the input that ends.
        3 => stdin: bool,
    }

    /// Pids: asks for all processes of a container.
    pub struct PidsRequest {
        /// The container.
        1 => id: String,
    }

    /// The answer to Pids.
    pub struct PidsResponse {
        /// One for each.
        1 => processes: Vec<ProcessInfo>,
    }

    /// Checkpoint: writes a container's state to a directory.
    pub struct CheckpointTaskRequest {
        /// The container.
        1 => id: String,
        /// The directory.
        2 => path: String,
        /// [`CheckpointOptions`](crate::messages::options::CheckpointOptions).
        3 => options: Option<Any>,
    }

    /// Update: sets limits of a container.
    pub struct UpdateTaskRequest {
        /// The container.
        1 => id: String,
        /// The `linux.resources` of the runtime specification in JSON
        /// ([`specs::LINUX_RESOURCES`](crate::messages::specs::LINUX_RESOURCES)).
        2 => resources: Option<Any>,
        /// Annotations that are set anew.
        3 => annotations: BTreeMap<String, String>,
    }

    /// Start: starts what Create or Exec prepared.
    pub struct StartRequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
    }

    /// The answer to Start.
    pub struct StartResponse {
        /// The process, as the host numbers it.
        1 => pid: u32,
    }

    /// Wait: is answered when a process has ended.
    pub struct WaitRequest {
        /// The container.
        1 => id: String,
        /// Which of its processes.
        2 => exec_id: String,
    }

    /// The answer to Wait.
    pub struct WaitResponse {
        /// How it ended: its status, or 128 and the signal.
        1 => exit_status: u32,
        /// When.
        2 => exited_at: Option<Timestamp>,
    }

    /// Stats: asks what a container has used.
    pub struct StatsRequest {
        /// The container.
        1 => id: String,
    }

    /// The answer to Stats.
    pub struct StatsResponse {
        /// The [`Metrics`](crate::messages::metrics_v2::Metrics) of cgroup v2, or [those of
        /// v1](crate::messages::metrics_v1::Metrics).
        1 => stats: Option<Any>,
    }

    /// Connect: asks who the shim is.
    pub struct ConnectRequest {
        /// The container.
        1 => id: String,
    }

    /// The answer to Connect.
    pub struct ConnectResponse {
        /// The shim.
        1 => shim_pid: u32,
        /// The container's first process.
        2 => task_pid: u32,
        /// The shim's version.
        3 => version: String,
    }

    /// Shutdown: the shim is to end, if nothing is left in it.
    pub struct ShutdownRequest {
        /// The container.
        1 => id: String,
        /// Whether it is to end in any case.
        2 => now: bool,
    }

    /// Pause: freezes a container.
    pub struct PauseRequest {
        /// The container.
        1 => id: String,
    }

    /// Resume: thaws a container.
    pub struct ResumeRequest {
        /// The container.
        1 => id: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_by_name() {
        for method in Method::ALL {
            assert_eq!(Method::from_name(method.name()), Some(method));
        }
        assert_eq!(Method::from_name("state"), None);
    }
}
