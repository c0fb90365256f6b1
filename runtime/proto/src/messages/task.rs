//! The service of a shim: `containerd.task.v3.Task`, 17 calls. `containerd.task.v2.Task`, used by containerd 1.x, has
//! the same calls and messages: the .proto files differ only in the package name.
//!
//! Pause, Resume, Checkpoint, Kill, Exec, ResizePty, CloseIO, Update and Shutdown answer
//! [`Empty`](crate::messages::time::Empty). In all requests `id` is the container's id, and `exec_id` the id given to
//! Exec, empty for the first process.

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
    /// [`PauseRequest`] → [`Empty`](crate::messages::time::Empty), like all following calls except Wait, Stats and
    /// Connect.
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
    /// All calls, in the order of the .proto file.
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

    /// Returns the name of the call in requests.
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

    /// Returns the call with that name; `None` if the service has none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

message! {
    /// Create: creates a container without starting it.
    pub struct CreateTaskRequest {
        /// The container's id.
        1 => id: String,
        /// The directory with `config.json` and `rootfs`.
        2 => bundle: String,
        /// The mounts for `rootfs`; empty if it is already mounted.
        3 => rootfs: Vec<Mount>,
        /// Whether the process has a terminal; then stderr is unused.
        4 => terminal: bool,
        /// The source of input: a FIFO's path or a URL (`fifo:`, `file:`, `binary:`); empty for none.
        5 => stdin: String,
        /// The sink of output, in the same format.
        6 => stdout: String,
        /// The sink of errors, in the same format.
        7 => stderr: String,
        /// The checkpoint to restore.
        8 => checkpoint: String,
        /// The parent of that checkpoint.
        9 => parent_checkpoint: String,
        /// [`Options`](crate::messages::options::Options), or the CRI's
        /// [`RuntimeOptions`](crate::messages::options::RuntimeOptions).
        10 => options: Option<Any>,
    }

    /// The answer to Create.
    pub struct CreateTaskResponse {
        /// The pid of the container's first process.
        1 => pid: u32,
    }

    /// Delete: removes an exited container or process.
    pub struct DeleteRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
    }

    /// The answer to Delete.
    pub struct DeleteResponse {
        /// The pid of the exited process.
        1 => pid: u32,
        /// The exit status of the process, or 128 plus the signal.
        2 => exit_status: u32,
        /// The time of its exit.
        3 => exited_at: Option<Timestamp>,
    }

    /// Exec: prepares another process, which Start runs.
    pub struct ExecProcessRequest {
        /// The container's id.
        1 => id: String,
        /// The id for the process.
        2 => exec_id: String,
        /// Whether the process has a terminal.
        3 => terminal: bool,
        /// The source of input, as in [`CreateTaskRequest`].
        4 => stdin: String,
        /// The sink of output.
        5 => stdout: String,
        /// The sink of errors.
        6 => stderr: String,
        /// The `process` of the runtime specification in JSON
        /// ([`specs::PROCESS`](crate::messages::specs::PROCESS)).
        7 => spec: Option<Any>,
    }

    /// ResizePty: sets the size of a process's terminal.
    pub struct ResizePtyRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
        /// Columns.
        3 => width: u32,
        /// Rows.
        4 => height: u32,
    }

    /// State: requests the state of a process.
    pub struct StateRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
    }

    /// The answer to State.
    pub struct StateResponse {
        /// The container's id; for processes started by Exec, the exec id.
        1 => id: String,
        /// The container's bundle.
        2 => bundle: String,
        /// The pid on the host.
        3 => pid: u32,
        /// One of [`status`](crate::messages::process::status).
        4 => status: i32,
        /// The source of input, as requested.
        5 => stdin: String,
        /// The sink of output.
        6 => stdout: String,
        /// The sink of errors.
        7 => stderr: String,
        /// Whether the process has a terminal.
        8 => terminal: bool,
        /// The exit status of the process.
        9 => exit_status: u32,
        /// The time of its exit; absent before the exit.
        10 => exited_at: Option<Timestamp>,
        /// The request's `exec_id`.
        11 => exec_id: String,
    }

    /// Kill: sends a signal.
    pub struct KillRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
        /// The signal's number.
        3 => signal: u32,
        /// Whether all processes of the container get the signal.
        4 => all: bool,
    }

    /// CloseIO: closes the shim's end of a stream.
    pub struct CloseIORequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
        /// Whether standard input ends.
        3 => stdin: bool,
    }

    /// Pids: requests all processes of a container.
    pub struct PidsRequest {
        /// The container's id.
        1 => id: String,
    }

    /// The answer to Pids.
    pub struct PidsResponse {
        /// The processes.
        1 => processes: Vec<ProcessInfo>,
    }

    /// Checkpoint: writes a container's state to a directory.
    pub struct CheckpointTaskRequest {
        /// The container's id.
        1 => id: String,
        /// The directory.
        2 => path: String,
        /// [`CheckpointOptions`](crate::messages::options::CheckpointOptions).
        3 => options: Option<Any>,
    }

    /// Update: changes limits of a container.
    pub struct UpdateTaskRequest {
        /// The container's id.
        1 => id: String,
        /// The `linux.resources` of the runtime specification in JSON
        /// ([`specs::LINUX_RESOURCES`](crate::messages::specs::LINUX_RESOURCES)).
        2 => resources: Option<Any>,
        /// Annotations to set.
        3 => annotations: BTreeMap<String, String>,
    }

    /// Start: starts a container or a process prepared by Exec.
    pub struct StartRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
    }

    /// The answer to Start.
    pub struct StartResponse {
        /// The pid on the host.
        1 => pid: u32,
    }

    /// Wait: answered when a process has exited.
    pub struct WaitRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
    }

    /// The answer to Wait.
    pub struct WaitResponse {
        /// The exit status of the process, or 128 plus the signal.
        1 => exit_status: u32,
        /// The time of its exit.
        2 => exited_at: Option<Timestamp>,
    }

    /// Stats: requests the resource usage of a container.
    pub struct StatsRequest {
        /// The container's id.
        1 => id: String,
    }

    /// The answer to Stats.
    pub struct StatsResponse {
        /// The [`Metrics`](crate::messages::metrics_v2::Metrics) of cgroup v2, or [those of
        /// v1](crate::messages::metrics_v1::Metrics).
        1 => stats: Option<Any>,
    }

    /// Connect: requests the shim's identity.
    pub struct ConnectRequest {
        /// The container's id.
        1 => id: String,
    }

    /// The answer to Connect.
    pub struct ConnectResponse {
        /// The shim's pid.
        1 => shim_pid: u32,
        /// The pid of the container's first process.
        2 => task_pid: u32,
        /// The shim's version.
        3 => version: String,
    }

    /// Shutdown: ends the shim if it has no containers left.
    pub struct ShutdownRequest {
        /// The container's id.
        1 => id: String,
        /// Whether the shim ends even if it has containers.
        2 => now: bool,
    }

    /// Pause: freezes a container.
    pub struct PauseRequest {
        /// The container's id.
        1 => id: String,
    }

    /// Resume: thaws a container.
    pub struct ResumeRequest {
        /// The container's id.
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
