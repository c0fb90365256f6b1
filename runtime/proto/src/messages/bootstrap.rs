//! What containerd 2.3 and later write to a shim's stdin when they start it, and read from its stdout: protobuf,
//! where earlier ones pass the runtime's options ([`Options`](crate::messages::options::Options) in an Any) and
//! read an address or JSON. Those options can decode as parameters: they are such only if id and namespace are
//! the command line's (pkg/shim/compat.go).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::messages::any::Any;

/// `containerd.runtime.bootstrap.v1.LogLevel`: the greater, the more serious. Values between these are possible.
pub mod log_level {
    /// Every step.
    pub const TRACE: i32 = -8;
    /// What helps to find bugs.
    pub const DEBUG: i32 = -4;
    /// What is worth knowing.
    pub const INFO: i32 = 0;
    /// What may become an error.
    pub const WARN: i32 = 4;
    /// Errors.
    pub const ERROR: i32 = 8;
    /// What ends the program.
    pub const FATAL: i32 = 10;
    /// Bugs.
    pub const PANIC: i32 = 12;
}

message! {
    /// `containerd.runtime.bootstrap.v1.BootstrapParams`: what a shim is told.
    pub struct BootstrapParams = "containerd.runtime.bootstrap.v1.BootstrapParams" {
        /// The container, or the sandbox.
        1 => instance_id: String,
        /// containerd's namespace.
        2 => namespace: String,
        /// What is logged: one of [`log_level`] or between two.
        3 => log_level: i32,
        /// containerd's version.
        4 => containerd_version: String,
        /// The socket for events.
        5 => containerd_ttrpc_address: String,
        /// The socket for everything else.
        6 => containerd_grpc_address: String,
        /// The program containerd, by which events can be published as well.
        7 => containerd_binary: String,
        /// Anything else, the runtime's options among it.
        8 => extensions: Vec<Extension>,
        /// The directory for the shim's socket, if not the usual one.
        9 => socket_dir: Option<String>,
    }

    /// `containerd.runtime.bootstrap.v1.Extension`.
    pub struct Extension = "containerd.runtime.bootstrap.v1.Extension" {
        /// What it is, and what it says.
        1 => value: Option<Any>,
    }

    /// `containerd.runtime.bootstrap.v1.BootstrapResult`: what a shim answers.
    pub struct BootstrapResult = "containerd.runtime.bootstrap.v1.BootstrapResult" {
        /// The version of the task service that it offers, 2 or 3.
        1 => version: i32,
        /// Where it listens: `unix://` and a path.
        2 => address: String,
        /// What it speaks there: `ttrpc` or `grpc`.
        3 => protocol: String,
        /// What it can do; none is defined yet.
        4 => capabilities: Vec<i32>,
        /// Anything, in words.
        5 => metadata: BTreeMap<String, String>,
        /// Anything else, such as [`MountCapabilities`](crate::messages::mount::MountCapabilities) (containerd
        /// 2.4).
        6 => extensions: Vec<Extension>,
    }
}
