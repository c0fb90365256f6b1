//! The processes of a container, and their states.

use crate::messages::any::Any;

/// `containerd.v1.types.Status`: the state of a process.
pub mod status {
    /// The process was created, and waits for Start.
    pub const CREATED: i32 = 1;
    /// The process is running.
    pub const RUNNING: i32 = 2;
    /// The process has exited.
    pub const STOPPED: i32 = 3;
    /// The process is frozen.
    pub const PAUSED: i32 = 4;
}

message! {
    /// `containerd.v1.types.ProcessInfo`.
    pub struct ProcessInfo = "containerd.v1.types.ProcessInfo" {
        /// The pid on the host.
        1 => pid: u32,
        /// The exec id in [`ProcessDetails`](crate::messages::options::ProcessDetails), if the process was started by
        /// Exec.
        2 => info: Option<Any>,
    }
}
