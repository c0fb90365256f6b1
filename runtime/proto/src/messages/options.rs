//! The options of runtimes, which come from containerd's configuration or from clients.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `containerd.runc.v1.Options`: the options of runc's shim. Other shims accept them as well.
    pub struct Options = "containerd.runc.v1.Options" {
        /// Whether the root directory is changed without pivot_root(2).
        1 => no_pivot_root: bool,
        /// Whether the container keeps the caller's session keyring instead of a new one.
        2 => no_new_keyring: bool,
        /// The cgroup that the shim joins.
        3 => shim_cgroup: String,
        /// The uid of the owner of the pipes for standard streams.
        4 => io_uid: u32,
        /// The gid of the owner of the pipes for standard streams.
        5 => io_gid: u32,
        /// The path or name of the runtime's program.
        6 => binary_name: String,
        /// The directory of the runtime's state.
        7 => root: String,
        /// The path of the program criu; removed in containerd 2.0.
        8 => criu_path: String,
        /// Whether systemd manages the cgroups.
        9 => systemd_cgroup: bool,
        /// The directory for criu's images.
        10 => criu_image_path: String,
        /// criu's working directory.
        11 => criu_work_path: String,
        /// The address of the task service, for sandboxes. Deprecated.
        12 => task_api_address: String,
        /// The version of the task service at `task_api_address`, 2 or 3. Deprecated.
        13 => task_api_version: u32,
    }

    /// `containerd.runc.v1.CheckpointOptions`: the options of a checkpoint.
    pub struct CheckpointOptions = "containerd.runc.v1.CheckpointOptions" {
        /// Whether the container exits after the checkpoint.
        1 => exit: bool,
        /// Whether open TCP connections are preserved.
        2 => open_tcp: bool,
        /// Whether UNIX sockets connected to external sockets are allowed.
        3 => external_unix_sockets: bool,
        /// Whether a terminal is allowed.
        4 => terminal: bool,
        /// Whether file locks are allowed.
        5 => file_locks: bool,
        /// The namespaces that are restored without their contents.
        6 => empty_namespaces: Vec<String>,
        /// The mode in which criu handles cgroups: `soft`, `full` or `strict`.
        7 => cgroups_mode: String,
        /// The directory for the images.
        8 => image_path: String,
        /// criu's working directory.
        9 => work_path: String,
        /// The directory with the images of an earlier checkpoint, on which the new images are based.
        10 => parent_path: String,
    }

    /// `containerd.runc.v1.ProcessDetails`: identifies a process of a container.
    pub struct ProcessDetails = "containerd.runc.v1.ProcessDetails" {
        /// The exec id of the process.
        1 => exec_id: String,
    }

    /// `runtimeoptions.v1.Options`: the message that the CRI passes to shims whose own options it does not know.
    pub struct RuntimeOptions = "runtimeoptions.v1.Options" {
        /// The type of the configuration, as the shim defines it.
        1 => type_url: String,
        /// The path of a file that contains the configuration.
        2 => config_path: String,
        /// The configuration itself, in TOML; ignored if `config_path` is set.
        3 => config_body: Vec<u8>,
    }
}
