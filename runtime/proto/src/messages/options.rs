//! Options of runtimes from containerd's configuration and clients.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `containerd.runc.v1.Options`: the options of runc's shim, which other shims accept as well.
    pub struct Options = "containerd.runc.v1.Options" {
        /// Whether the root is changed without pivot_root(2).
        1 => no_pivot_root: bool,
        /// Whether the container shares the caller's session keyring.
        2 => no_new_keyring: bool,
        /// A cgroup for the shim.
        3 => shim_cgroup: String,
        /// The owner of the pipes of standard streams.
        4 => io_uid: u32,
        /// The group of the pipes.
        5 => io_gid: u32,
        /// The runtime's program.
        6 => binary_name: String,
        /// The directory of the runtime's state.
        7 => root: String,
        /// The program criu; removed in containerd 2.0.
        8 => criu_path: String,
        /// Whether systemd manages the cgroups.
        9 => systemd_cgroup: bool,
        /// The directory for criu's images.
        10 => criu_image_path: String,
        /// criu's working directory.
        11 => criu_work_path: String,
        /// The address of the task service, for sandboxes; deprecated.
        12 => task_api_address: String,
        /// The version of that service, 2 or 3; deprecated.
        13 => task_api_version: u32,
    }

    /// `containerd.runc.v1.CheckpointOptions`: the options of a checkpoint.
    pub struct CheckpointOptions = "containerd.runc.v1.CheckpointOptions" {
        /// Whether the container exits afterwards.
        1 => exit: bool,
        /// Whether open TCP connections are preserved.
        2 => open_tcp: bool,
        /// Whether external UNIX sockets are allowed.
        3 => external_unix_sockets: bool,
        /// Whether terminals are allowed.
        4 => terminal: bool,
        /// Whether file locks are allowed.
        5 => file_locks: bool,
        /// Namespaces to restore empty.
        6 => empty_namespaces: Vec<String>,
        /// How cgroups are handled: `soft`, `full` or `strict`.
        7 => cgroups_mode: String,
        /// The directory for the images.
        8 => image_path: String,
        /// criu's working directory.
        9 => work_path: String,
        /// The parent images of the images to write.
        10 => parent_path: String,
    }

    /// `containerd.runc.v1.ProcessDetails`: the identity of a container's process.
    pub struct ProcessDetails = "containerd.runc.v1.ProcessDetails" {
        /// The exec id of the process.
        1 => exec_id: String,
    }

    /// `runtimeoptions.v1.Options`: the message that the CRI passes to shims whose own options are unknown to it.
    pub struct RuntimeOptions = "runtimeoptions.v1.Options" {
        /// The type of the configuration, as named by its shim.
        1 => type_url: String,
        /// A file with the configuration.
        2 => config_path: String,
        /// The configuration itself, in TOML; ignored if there is a file.
        3 => config_body: Vec<u8>,
    }
}
