//! Processes of a container and their states.

use crate::messages::any::Any;

/// `containerd.v1.types.Status`: the state of a process.
pub mod status {
    /// Unknown.
    pub const UNKNOWN: i32 = 0;
    /// Created, and waiting for its start.
    pub const CREATED: i32 = 1;
    /// Running.
    pub const RUNNING: i32 = 2;
    /// Exited.
    pub const STOPPED: i32 = 3;
    /// Frozen.
    pub const PAUSED: i32 = 4;
    /// About to be frozen.
    pub const PAUSING: i32 = 5;
}

message! {
    /// `containerd.v1.types.ProcessInfo`.
    pub struct ProcessInfo = "containerd.v1.types.ProcessInfo" {
        /// The pid on the host.
        1 => pid: u32,
        /// [`ProcessDetails`](crate::messages::options::ProcessDetails), for processes started by Exec.
        2 => info: Option<Any>,
    }
}
