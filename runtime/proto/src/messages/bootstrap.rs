//! The parameters that containerd 2.3 and later write to a new shim's stdin, and the answer that the shim writes to
//! stdout, both in protobuf. Earlier versions of containerd write the runtime's options
//! ([`Options`](crate::messages::options::Options) in an Any), and read an address or JSON. An Any with options may
//! also be decodable as BootstrapParams. So the input is treated as BootstrapParams only if the id and the namespace in
//! it equal those on the command line (pkg/shim/compat.go).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::messages::any::Any;

/// `containerd.runtime.bootstrap.v1.LogLevel`: higher values are more severe. Values between these constants are valid
/// as well.
pub mod log_level {
    /// Every step.
    pub const TRACE: i32 = -8;
    /// Debugging information.
    pub const DEBUG: i32 = -4;
}

message! {
    /// `containerd.runtime.bootstrap.v1.BootstrapParams`: the parameters of a shim.
    pub struct BootstrapParams = "containerd.runtime.bootstrap.v1.BootstrapParams" {
        /// The id of the container, or of the sandbox.
        1 => instance_id: String,
        /// containerd's namespace.
        2 => namespace: String,
        /// The log level: one of [`log_level`], or a value between two of them.
        3 => log_level: i32,
        /// containerd's version.
        4 => containerd_version: String,
        /// The address of containerd's event socket.
        5 => containerd_ttrpc_address: String,
        /// The address of containerd's main socket.
        6 => containerd_grpc_address: String,
        /// The path of containerd's program, which a shim can execute to publish events.
        7 => containerd_binary: String,
        /// Extensions. One of them contains the runtime's options.
        8 => extensions: Vec<Extension>,
        /// The directory for the shim's socket, if it is not the default.
        9 => socket_dir: Option<String>,
    }

    /// `containerd.runtime.bootstrap.v1.Extension`.
    pub struct Extension = "containerd.runtime.bootstrap.v1.Extension" {
        /// The extension, together with its type.
        1 => value: Option<Any>,
    }

    /// `containerd.runtime.bootstrap.v1.BootstrapResult`: the answer of a shim.
    pub struct BootstrapResult = "containerd.runtime.bootstrap.v1.BootstrapResult" {
        /// The version of the shim's task service, 2 or 3.
        1 => version: i32,
        /// The shim's address: `unix://` and a path.
        2 => address: String,
        /// The protocol on that address: `ttrpc` or `grpc`.
        3 => protocol: String,
        /// The shim's capabilities. None are defined yet.
        4 => capabilities: Vec<i32>,
        /// Free-form metadata.
        5 => metadata: BTreeMap<String, String>,
        /// Extensions, such as [`MountCapabilities`](crate::messages::mount::MountCapabilities) (containerd 2.4).
        6 => extensions: Vec<Extension>,
    }
}
