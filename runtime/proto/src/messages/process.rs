//! Processes of a container and the states that they are in.

use crate::messages::any::Any;

/// `containerd.v1.types.Status`: how far a process is.
pub mod status {
    /// Nothing is known.
    pub const UNKNOWN: i32 = 0;
    /// It was created and waits for its start.
    pub const CREATED: i32 = 1;
    /// It runs.
    pub const RUNNING: i32 = 2;
    /// It has ended.
    pub const STOPPED: i32 = 3;
    /// It is frozen.
    pub const PAUSED: i32 = 4;
    /// It is about to be frozen.
    pub const PAUSING: i32 = 5;
}

message! {
    /// `containerd.v1.types.ProcessInfo`.
    pub struct ProcessInfo = "containerd.v1.types.ProcessInfo" {
        /// The process, as the host numbers it.
        1 => pid: u32,
        /// [`ProcessDetails`](crate::messages::options::ProcessDetails), for what was started by Exec.
        2 => info: Option<Any>,
    }
}
