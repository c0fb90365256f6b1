//! The service that a shim provides: `containerd.task.v3.Task`, with 17 calls. containerd 1.x uses
//! `containerd.task.v2.Task`, which has the same calls and messages: the .proto files differ only in the package name.
//!
//! The calls Pause, Resume, Checkpoint, Kill, Exec, ResizePty, CloseIO, Update and Shutdown return
//! [`Empty`](crate::messages::time::Empty). In all requests, `id` is the container's id, and `exec_id` is the id that
//! Exec gave to an additional process, or empty for the container's first process.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::messages::any::Any;
use crate::messages::mount::Mount;
use crate::messages::process::ProcessInfo;
use crate::messages::time::Timestamp;

/// The name of the service in containerd 2.
pub const SERVICE_V3: &str = "containerd.task.v3.Task";
/// The name of the service in containerd 1.
pub const SERVICE_V2: &str = "containerd.task.v2.Task";

/// Defines the calls of the service, with the names of their variants.
macro_rules! methods {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// A call of the service.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Method {
            $($(#[$about])* $name,)*
        }

        impl Method {
            /// All calls, in the order of the .proto file.
            pub const ALL: [Self; 17] = [$(Self::$name),*];

            /// The method's name in a request.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns the call of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|method| method.name() == name)
            }
        }
    };
}

methods! {
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
    /// [`PauseRequest`] → [`Empty`](crate::messages::time::Empty). All following calls also return Empty, unless
    /// another message is given.
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

message! {
    /// Create: creates a container without starting it.
    pub struct CreateTaskRequest {
        /// The container's id.
        1 => id: String,
        /// The directory that contains `config.json` and `rootfs`.
        2 => bundle: String,
        /// The mounts for `rootfs`; empty if `rootfs` is already mounted.
        3 => rootfs: Vec<Mount>,
        /// Whether the process has a terminal, in which case stderr is not used.
        4 => terminal: bool,
        /// The source of standard input: the path of a FIFO, or a URL (`fifo:`, `file:`, `binary:`). If empty, there is
        /// no standard input.
        5 => stdin: String,
        /// The sink of standard output, in the same format.
        6 => stdout: String,
        /// The sink of standard error, in the same format.
        7 => stderr: String,
        /// The checkpoint from which the container is restored.
        8 => checkpoint: String,
        /// The earlier checkpoint on which `checkpoint` is based.
        9 => parent_checkpoint: String,
        /// The runtime's options: [`Options`](crate::messages::options::Options), or the CRI's
        /// [`RuntimeOptions`](crate::messages::options::RuntimeOptions).
        10 => options: Option<Any>,
    }

    /// The answer to Create.
    pub struct CreateTaskResponse {
        /// The pid of the container's first process.
        1 => pid: u32,
    }

    /// Delete: removes a container or process that has exited.
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
        /// The time at which the process exited.
        3 => exited_at: Option<Timestamp>,
    }

    /// Exec: prepares an additional process, which Start runs.
    pub struct ExecProcessRequest {
        /// The container's id.
        1 => id: String,
        /// The new process's exec id.
        2 => exec_id: String,
        /// Whether the process has a terminal.
        3 => terminal: bool,
        /// The source of standard input, in the format of `stdin` in [`CreateTaskRequest`].
        4 => stdin: String,
        /// The sink of standard output.
        5 => stdout: String,
        /// The sink of standard error.
        6 => stderr: String,
        /// The object `process` of the runtime specification, in JSON
        /// ([`specs::PROCESS`](crate::messages::specs::PROCESS)).
        7 => spec: Option<Any>,
    }

    /// ResizePty: sets the size of a process's terminal.
    pub struct ResizePtyRequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
        /// The number of columns.
        3 => width: u32,
        /// The number of rows.
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
        /// The container's id or, for a process prepared by Exec, the exec id.
        1 => id: String,
        /// The container's bundle.
        2 => bundle: String,
        /// The pid on the host.
        3 => pid: u32,
        /// The state: one of [`status`](crate::messages::process::status).
        4 => status: i32,
        /// The source of standard input, as requested.
        5 => stdin: String,
        /// The sink of standard output.
        6 => stdout: String,
        /// The sink of standard error.
        7 => stderr: String,
        /// Whether the process has a terminal.
        8 => terminal: bool,
        /// The exit status of the process.
        9 => exit_status: u32,
        /// The time at which the process exited; absent if it has not exited.
        10 => exited_at: Option<Timestamp>,
        /// The `exec_id` of the request.
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
        /// Whether the signal is sent to all processes of the container.
        4 => all: bool,
    }

    /// CloseIO: closes the shim's end of a process's stream.
    pub struct CloseIORequest {
        /// The container's id.
        1 => id: String,
        /// The process's exec id; empty for the first process.
        2 => exec_id: String,
        /// Whether standard input is closed.
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

    /// Checkpoint: writes a checkpoint of a container to a directory.
    pub struct CheckpointTaskRequest {
        /// The container's id.
        1 => id: String,
        /// The directory's path.
        2 => path: String,
        /// The options: [`CheckpointOptions`](crate::messages::options::CheckpointOptions).
        3 => options: Option<Any>,
    }

    /// Update: changes the limits of a container.
    pub struct UpdateTaskRequest {
        /// The container's id.
        1 => id: String,
        /// The object `linux.resources` of the runtime specification, in JSON
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

    /// Wait: waits for the exit of a process.
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
        /// The time at which the process exited.
        2 => exited_at: Option<Timestamp>,
    }

    /// Stats: requests the resource usage of a container.
    pub struct StatsRequest {
        /// The container's id.
        1 => id: String,
    }

    /// The answer to Stats.
    pub struct StatsResponse {
        /// The message `Metrics` of [cgroup v2](crate::messages::metrics_v2::Metrics) or of [cgroup
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

    /// Shutdown: shuts the shim down if it has no containers.
    pub struct ShutdownRequest {
        /// The container's id.
        1 => id: String,
        /// Whether the shim is shut down even if it has containers.
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
