//! The requests to criu and its answers, which go over the socket of `criu swrk`: rpc.proto of CRIU 4.2 (criu.org/RPC).
//!
//! The file is proto2, which distinguishes an absent field from a zero. Where this matters, the field is an `Option`.
//! Fields that dayfly does not use are left out.

use alloc::string::String;
use alloc::vec::Vec;

/// The types of requests and answers.
pub mod kind {
    /// Save a process tree.
    pub const DUMP: i32 = 1;
    /// Restore a process tree.
    pub const RESTORE: i32 = 2;
    /// A stage was reached; criu waits for an answer.
    pub const NOTIFY: i32 = 6;
    /// Which features does this kernel support?
    pub const FEATURE_CHECK: i32 = 9;
    /// Which version is criu?
    pub const VERSION: i32 = 10;

    /// Returns the name in rpc.proto.
    pub fn name(kind: i32) -> &'static str {
        match kind {
            DUMP => "DUMP",
            RESTORE => "RESTORE",
            NOTIFY => "NOTIFY",
            FEATURE_CHECK => "FEATURE_CHECK",
            VERSION => "VERSION",
            _ => "EMPTY",
        }
    }
}

/// The modes of handling cgroups.
pub mod cgroups {
    /// Leave cgroups alone.
    pub const IGNORE: i32 = 0;
    /// Create missing cgroups, and set their limits.
    pub const SOFT: i32 = 3;
    /// Set the limits of all cgroups.
    pub const FULL: i32 = 4;
    /// Fail if a cgroup exists already.
    pub const STRICT: i32 = 5;
    /// criu's default: [`SOFT`].
    pub const DEFAULT: i32 = 6;
}

message! {
    /// `criu_page_server_info`: the server that receives or serves pages.
    pub struct PageServer {
        /// The server's address.
        1 => address: String,
        /// The server's TCP port.
        2 => port: i32,
    }

    /// `ext_mount_map`: an external mount, which criu does not save.
    pub struct ExternalMount {
        /// On a dump the mount point in the container, on a restore the name in the images.
        1 => key: String,
        /// On a dump the name in the images, on a restore a path on the host.
        2 => value: String,
    }

    /// `join_namespace`: an existing namespace to join.
    pub struct JoinedNamespace {
        /// The kind, as in /proc/PID/ns.
        1 => kind: String,
        /// The namespace's file.
        2 => file: String,
    }

    /// `inherit_fd`: an open file that criu hands on to the restored processes.
    pub struct InheritedFd {
        /// The name in the images.
        1 => key: String,
        /// The descriptor in criu's process.
        2 => fd: Option<i32>,
    }

    /// `cgroup_root`: the root of the cgroups in a hierarchy.
    pub struct CgroupRoot {
        /// The hierarchy; an empty name is cgroup v2, an absent one means all.
        1 => controller: Option<String>,
        /// The path in the hierarchy.
        2 => path: String,
    }

    /// `criu_opts`: the options of a dump or restore.
    pub struct Options {
        /// The directory of images, as a descriptor of the client.
        1 => images_dir_fd: Option<i32>,
        /// The root of the process tree.
        2 => pid: i32,
        /// Whether the processes keep running after a dump.
        3 => leave_running: bool,
        /// Whether UNIX sockets may be connected to sockets outside the tree.
        4 => ext_unix_sk: bool,
        /// Whether TCP connections are saved.
        5 => tcp_established: bool,
        /// Whether a device whose number has changed is found by its path.
        6 => evasive_devices: bool,
        /// Whether sessions and terminals from outside the tree are allowed.
        7 => shell_job: bool,
        /// Whether file locks are saved.
        8 => file_locks: bool,
        /// The log level: 4 logs everything.
        9 => log_level: i32,
        /// The log's name in the work directory.
        10 => log_file: String,
        /// The server that receives the pages of a dump.
        11 => page_server: Option<PageServer>,
        /// Whether criu sends notices of stages.
        12 => notify_scripts: bool,
        /// The root of the mount tree.
        13 => root: String,
        /// The work directory, as a descriptor of the client.
        17 => work_dir_fd: Option<i32>,
        /// Whether open, unlinked files get a temporary name.
        18 => link_remap: bool,
        /// External mounts.
        23 => external_mounts: Vec<ExternalMount>,
        /// The field that older versions use instead of `cgroups_mode`.
        24 => manage_cgroups: bool,
        /// The roots of the cgroups.
        25 => cgroup_roots: Vec<CgroupRoot>,
        /// Whether the restored init becomes a child of the client.
        26 => rst_sibling: bool,
        /// Open files that criu hands on.
        27 => inherited_fds: Vec<InheritedFd>,
        /// One of [`cgroups`].
        34 => cgroups_mode: Option<i32>,
        /// Other external objects: `net[INODE]:NAME`.
        37 => external: Vec<String>,
        /// Namespaces that are created without their contents, as flags of clone(2).
        38 => empty_ns: u32,
        /// Namespaces to join.
        39 => joined_namespaces: Vec<JoinedNamespace>,
        /// The cgroup to freeze.
        44 => freeze_cgroup: String,
        /// Whether TCP connections that are being established are left out.
        46 => tcp_skip_in_flight: bool,
        /// Whether pages are loaded when they are accessed.
        48 => lazy_pages: bool,
        /// The descriptor for the status of the page server, before 3.15.
        49 => status_fd: Option<i32>,
        /// Whether criu passes the masters of terminals that no restored process has open.
        50 => orphan_pts_master: bool,
        /// A file with options that override these.
        51 => config_file: String,
        /// The profile of a Linux security module.
        53 => lsm_profile: String,
        /// The SELinux context of the mounts.
        63 => lsm_mount_context: String,
    }

    /// `criu_features`: optional features of the kernel.
    pub struct Features {
        /// Whether written pages are tracked (CONFIG_MEM_SOFT_DIRTY).
        1 => mem_track: bool,
        /// Whether pages can be loaded when they are accessed (userfaultfd(2)).
        2 => lazy_pages: bool,
    }

    /// `criu_req`: a request, or the answer to a notice.
    pub struct Request {
        /// One of [`kind`].
        1 => kind: i32,
        /// The options.
        2 => options: Option<Options>,
        /// Whether the work at the notified stage succeeded.
        3 => notify_success: Option<bool>,
        /// Whether further requests follow.
        4 => keep_open: bool,
        /// The features to check.
        5 => features: Option<Features>,
    }

    /// `criu_restore_resp`: the result of a restore.
    pub struct Restored {
        /// The root of the process tree.
        1 => pid: i32,
    }

    /// `criu_notify`: a notice of a stage.
    pub struct Notice {
        /// The stage's name.
        1 => script: String,
        /// The root of the process tree, if it exists.
        2 => pid: i32,
    }

    /// `criu_version`: the version.
    pub struct Version {
        /// The first number.
        1 => major: i32,
        /// The second number.
        2 => minor: i32,
        /// The third number.
        4 => sublevel: i32,
    }

    /// `criu_resp`: an answer, or a notice.
    pub struct Response {
        /// One of [`kind`].
        1 => kind: i32,
        /// Whether the request succeeded.
        2 => success: bool,
        /// The result of a restore.
        4 => restored: Option<Restored>,
        /// The stage.
        5 => notice: Option<Notice>,
        /// The error number of a failure.
        7 => errno: i32,
        /// The supported features.
        8 => features: Option<Features>,
        /// The version.
        10 => version: Option<Version>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_told_from_nothing() {
        let inherited = InheritedFd { key: "pipe:[7]".into(), fd: Some(0) };
        assert_eq!(inherited.encode(), b"\x0a\x08pipe:[7]\x10\x00");
        let options = Options { cgroups_mode: Some(cgroups::IGNORE), ..Options::default() };
        assert_eq!(options.encode(), [0x90, 0x02, 0]);
        assert_eq!(Options::decode(&[0x90, 0x02, 0]).unwrap(), options);
        assert_eq!(Options::decode(&[]).unwrap().cgroups_mode, None);
        let root = CgroupRoot { controller: Some(String::new()), path: "/c".into() };
        assert_eq!(root.encode(), b"\x0a\x00\x12\x02/c");
    }

    #[test]
    fn an_answer() {
        // The answer of criu 4.2 to a restore that failed, without its message.
        let bytes = b"\x08\x02\x10\x00\x22\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x38\x16";
        let answer = Response::decode(bytes).unwrap();
        assert_eq!((answer.kind, answer.success, answer.errno), (kind::RESTORE, false, 22));
        assert_eq!(answer.restored, Some(Restored { pid: -1 }));
    }
}
