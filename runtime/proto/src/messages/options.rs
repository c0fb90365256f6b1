//! Options of runtimes, which containerd passes on from its configuration and its clients.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `containerd.runc.v1.Options`: those of runc's shim, which everybody else's takes as well.
    pub struct Options = "containerd.runc.v1.Options" {
        /// Whether the root is changed without pivot_root(2).
        1 => no_pivot_root: bool,
        /// Whether the container shares the caller's session keyring.
        2 => no_new_keyring: bool,
        /// A cgroup for the shim.
        3 => shim_cgroup: String,
        /// Who owns the pipes of standard streams.
        4 => io_uid: u32,
        /// Their group.
        5 => io_gid: u32,
        /// The runtime's program.
        6 => binary_name: String,
        /// Where the runtime keeps its state.
        7 => root: String,
        /// The program criu; gone in containerd 2.0.
        8 => criu_path: String,
        /// Whether systemd makes the cgroups.
        9 => systemd_cgroup: bool,
        /// Where criu keeps images.
        10 => criu_image_path: String,
        /// Where criu works.
        11 => criu_work_path: String,
        /// The address of the task service, for sandboxes; deprecated.
        12 => task_api_address: String,
        /// The version of that service, 2 or 3; deprecated.
        13 => task_api_version: u32,
    }

    /// `containerd.runc.v1.CheckpointOptions`: how a checkpoint is made.
    pub struct CheckpointOptions = "containerd.runc.v1.CheckpointOptions" {
        /// Whether the container ends afterwards.
        1 => exit: bool,
        /// Whether open TCP connections are kept.
        2 => open_tcp: bool,
        /// Whether UNIX sockets may lead outside.
        3 => external_unix_sockets: bool,
        /// Whether there may be terminals.
        4 => terminal: bool,
        /// Whether there may be locks of files.
        5 => file_locks: bool,
        /// Namespaces that are restored empty.
        6 => empty_namespaces: Vec<String>,
        /// How cgroups are handled: `soft`, `full` or `strict`.
        7 => cgroups_mode: String,
        /// Where the images go.
        8 => image_path: String,
        /// Where criu works.
        9 => work_path: String,
        /// The images that these are based on.
        10 => parent_path: String,
    }

    /// `containerd.runc.v1.ProcessDetails`: who a process of a container is.
    pub struct ProcessDetails = "containerd.runc.v1.ProcessDetails" {
        /// What it was named when it was started by Exec.
        1 => exec_id: String,
    }

    /// `runtimeoptions.v1.Options`: what the CRI passes to shims whose options it does not know.
    pub struct RuntimeOptions = "runtimeoptions.v1.Options" {
        /// What the configuration is, as its own shim names it.
        1 => type_url: String,
        /// A file with the configuration.
        2 => config_path: String,
        /// The configuration itself, in TOML; of no use if there is a file.
        3 => config_body: Vec<u8>,
    }
}
