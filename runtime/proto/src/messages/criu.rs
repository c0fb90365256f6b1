//! The requests to criu and its responses, sent over the socket of `criu swrk`: rpc.proto of CRIU 4.2 (criu.org/RPC).
//!
//! rpc.proto has the syntax proto2, which distinguishes between an absent field and a zero. Where this difference
//! matters, the field is an `Option`. Most fields that dayfly does not use are left out.

use alloc::string::String;
use alloc::vec::Vec;

/// The types of requests and responses.
pub mod kind {
    /// Save a process tree.
    pub const DUMP: i32 = 1;
    /// Restore a process tree.
    pub const RESTORE: i32 = 2;
    /// Save the memory of a process tree that keeps running.
    pub const PRE_DUMP: i32 = 4;
    /// criu has reached a stage, and waits for an answer.
    pub const NOTIFY: i32 = 6;
    /// Query which features the kernel supports.
    pub const FEATURE_CHECK: i32 = 9;
    /// Query criu's version.
    pub const VERSION: i32 = 10;

    /// Returns the type's name in rpc.proto.
    pub fn name(kind: i32) -> &'static str {
        match kind {
            DUMP => "DUMP",
            RESTORE => "RESTORE",
            PRE_DUMP => "PRE_DUMP",
            NOTIFY => "NOTIFY",
            FEATURE_CHECK => "FEATURE_CHECK",
            VERSION => "VERSION",
            _ => "EMPTY",
        }
    }
}

/// The modes in which criu handles cgroups.
pub mod cgroups {
    /// Do not handle cgroups.
    pub const IGNORE: i32 = 0;
    /// Create missing cgroups, and set their limits.
    pub const SOFT: i32 = 3;
    /// Set the limits of all cgroups.
    pub const FULL: i32 = 4;
    /// Fail if a cgroup already exists.
    pub const STRICT: i32 = 5;
    /// Use criu's default, which is [`SOFT`].
    pub const DEFAULT: i32 = 6;
}

/// What criu checks of the CPU.
pub mod cpu {
    /// The registers and instructions, with an image of them, which a dump writes and a restore compares.
    pub const IN_IMAGE: u32 = 1 << 0 | 1 << 2 | 1 << 3;
}

/// The ways in which a dump can block network packets.
pub mod network_lock {
    /// With rules of iptables(8) or nft(8). criu's configuration file, or else criu's build, determines which.
    pub const DEFAULT: i32 = 0;
    /// Not at all (criu 3.19).
    pub const SKIP: i32 = 3;
}

message! {
    /// `criu_page_server_info`: the server that receives or provides memory pages.
    pub struct PageServer {
        /// The server's address.
        1 => address: String,
        /// The server's TCP port.
        2 => port: i32,
    }

    /// `ext_mount_map`: an external mount, whose contents criu does not save.
    pub struct ExternalMount {
        /// For a dump, the mount point in the container; for a restore, the mount's name in the images.
        1 => key: String,
        /// For a dump, the mount's name in the images; for a restore, a path on the host.
        2 => value: String,
    }

    /// `join_namespace`: an existing namespace to join.
    pub struct JoinedNamespace {
        /// The namespace's type, named as in /proc/PID/ns.
        1 => kind: String,
        /// The path of the namespace's file.
        2 => file: String,
    }

    /// `inherit_fd`: an open file of criu that the restored processes inherit.
    pub struct InheritedFd {
        /// The file's name in the images.
        1 => key: String,
        /// The descriptor in criu's process.
        2 => fd: Option<i32>,
    }

    /// `cgroup_root`: the root of the restored cgroups in a hierarchy.
    pub struct CgroupRoot {
        /// The hierarchy. An empty name means cgroup v2; an absent name means all hierarchies.
        1 => controller: Option<String>,
        /// The root's path in the hierarchy.
        2 => path: String,
    }

    /// `criu_opts`: the options of a dump or restore.
    pub struct Options {
        /// The client's descriptor of the directory with the images.
        1 => images_dir_fd: Option<i32>,
        /// The pid of the root of the process tree.
        2 => pid: i32,
        /// Whether the processes continue to run after a dump.
        3 => leave_running: bool,
        /// Whether UNIX sockets may be connected to sockets outside the process tree.
        4 => ext_unix_sk: bool,
        /// Whether TCP connections are saved.
        5 => tcp_established: bool,
        /// Whether criu may use any path to a device file if the original path is inaccessible.
        6 => evasive_devices: bool,
        /// Whether the session and the terminal may come from outside the process tree.
        7 => shell_job: bool,
        /// Whether file locks are saved.
        8 => file_locks: bool,
        /// The log level: 4 logs everything.
        9 => log_level: i32,
        /// The log's file name in the work directory.
        10 => log_file: String,
        /// The server that receives the pages of a dump.
        11 => page_server: Option<PageServer>,
        /// Whether criu notifies the client of each stage.
        12 => notify_scripts: bool,
        /// The directory that becomes the root of the mount tree.
        13 => root: String,
        /// The directory with the images of an earlier dump, relative to the directory with the images of this dump.
        14 => parent_img: String,
        /// Whether the kernel tracks which pages are written from this dump on.
        15 => track_mem: bool,
        /// Whether pages that this dump saves again are freed in the images of earlier dumps.
        16 => auto_dedup: bool,
        /// The client's descriptor of the work directory.
        17 => work_dir_fd: Option<i32>,
        /// Whether files that are open but unlinked get a temporary name.
        18 => link_remap: bool,
        /// What criu checks of the CPU, of [`cpu`].
        20 => cpu_cap: u32,
        /// External mounts.
        23 => external_mounts: Vec<ExternalMount>,
        /// Whether criu handles cgroups, for older versions of criu, which do not support `cgroups_mode`.
        24 => manage_cgroups: bool,
        /// The roots of the restored cgroups, per hierarchy.
        25 => cgroup_roots: Vec<CgroupRoot>,
        /// Whether the restored init becomes a child of the client.
        26 => rst_sibling: bool,
        /// Open files of criu that the restored processes inherit.
        27 => inherited_fds: Vec<InheritedFd>,
        /// The mode in which criu handles cgroups: one of [`cgroups`].
        34 => cgroups_mode: Option<i32>,
        /// Other external objects, for example `net[INODE]:NAME`.
        37 => external: Vec<String>,
        /// The namespaces that criu restores without their contents, as flags of clone(2).
        38 => empty_ns: u32,
        /// The existing namespaces that the restored processes join.
        39 => joined_namespaces: Vec<JoinedNamespace>,
        /// The hierarchies whose cgroups are saved, named as in /proc/PID/cgroup; all if the list is empty.
        43 => cgroup_dump_controllers: Vec<String>,
        /// The cgroup that criu freezes.
        44 => freeze_cgroup: String,
        /// Whether TCP connections that are not established yet are left out.
        46 => tcp_skip_in_flight: bool,
        /// Whether memory pages are loaded only when they are accessed.
        48 => lazy_pages: bool,
        /// The descriptor on which criu before 3.15 reports that its page server is ready.
        49 => status_fd: Option<i32>,
        /// Whether criu restores a terminal whose master is not open in any restored process. criu sends the master to
        /// the client.
        50 => orphan_pts_master: bool,
        /// A file with options that override those of this message.
        51 => config_file: String,
        /// Whether TCP connections are restored as closed ones.
        52 => tcp_close: bool,
        /// The profile of a Linux security module.
        53 => lsm_profile: String,
        /// The SELinux context of the mounts.
        63 => lsm_mount_context: String,
        /// The way in which a dump blocks packets of the processes' network namespaces: one of
        /// [`network_lock`]. A restore removes the rules that the dump of the images has set.
        64 => network_lock: i32,
        /// Whether a restore leaves the processes stopped, by SIGSTOP.
        69 => leave_stopped: bool,
    }

    /// `uid_gid_extent`: one line of an id mapping, in the image of a user namespace (images/userns.proto).
    pub struct IdExtent {
        /// The first id in the namespace.
        1 => first: u32,
        /// The first id on the host.
        2 => lower_first: u32,
        /// The number of ids.
        3 => count: u32,
    }

    /// `userns_entry`: the id mappings in the image of a user namespace.
    pub struct UserNamespace {
        /// The mapping of user ids.
        1 => uid_map: Vec<IdExtent>,
        /// The mapping of group ids.
        2 => gid_map: Vec<IdExtent>,
    }

    /// `cg_member_entry`: a cgroup of a set (images/cgroup.proto).
    pub struct CgroupMember {
        /// The hierarchy, named as in [`CgroupRoot`].
        1 => name: String,
        /// The cgroup's path in the hierarchy.
        2 => path: String,
        /// The length of the part of the path above the root of the processes' cgroup namespace.
        3 => namespace_prefix: u32,
    }

    /// `cg_set_entry`: the cgroups that a process has in all hierarchies.
    pub struct CgroupSet {
        /// One cgroup for each hierarchy.
        2 => members: Vec<CgroupMember>,
    }

    /// `cgroup_dir_entry`: a saved cgroup.
    pub struct CgroupDirectory {
        /// The cgroups below it.
        2 => children: Vec<CgroupDirectory>,
    }

    /// `cg_controller_entry`: the saved cgroups of a hierarchy.
    pub struct CgroupHierarchy {
        /// The uppermost of these cgroups.
        2 => directories: Vec<CgroupDirectory>,
    }

    /// `cgroup_entry`: the image of the cgroups.
    pub struct Cgroups {
        /// The sets of cgroups that processes have.
        1 => sets: Vec<CgroupSet>,
        /// The saved cgroups.
        2 => hierarchies: Vec<CgroupHierarchy>,
    }

    /// `pagemap_head`: the first message of the image of a process's memory map (images/pagemap.proto).
    pub struct MemoryMap {
        /// The number of the image with the pages.
        1 => pages: u32,
    }

    /// `pagemap_entry`: a range of pages.
    pub struct PageRange {
        /// The address of the first page.
        1 => address: u64,
        /// The number of pages, in images of older versions of criu.
        2 => fewer_pages: u32,
        /// Where the pages are, and whether they may be loaded late.
        4 => flags: u32,
        /// The number of pages.
        5 => pages: u64,
    }

    /// `mm_entry`: the image of a process's mappings (images/mm.proto).
    pub struct Mappings {
        /// The mappings.
        14 => list: Vec<Mapping>,
    }

    /// `vma_entry`: a mapping (images/vma.proto).
    pub struct Mapping {
        /// The madvise(2) of the mapping: bit N is advice N.
        9 => advice: u64,
    }

    /// `criu_features`: optional features of the kernel that criu can use.
    pub struct Features {
        /// Whether the kernel tracks which pages were written (CONFIG_MEM_SOFT_DIRTY).
        1 => mem_track: bool,
        /// Whether pages can be loaded only when they are accessed (userfaultfd(2)).
        2 => lazy_pages: bool,
    }

    /// `criu_req`: a request, or the client's answer to a notification.
    pub struct Request {
        /// The request's type: one of [`kind`].
        1 => kind: i32,
        /// The options of a dump or restore.
        2 => options: Option<Options>,
        /// In an answer to a notification: whether the client's work for this stage succeeded.
        3 => notify_success: Option<bool>,
        /// Whether further requests follow.
        4 => keep_open: bool,
        /// The features to check.
        5 => features: Option<Features>,
    }

    /// `criu_restore_resp`: the result of a restore.
    pub struct Restored {
        /// The pid of the root of the process tree.
        1 => pid: i32,
    }

    /// `criu_notify`: the notification that criu has reached a stage.
    pub struct Notice {
        /// The stage's name.
        1 => script: String,
        /// The pid of the root of the process tree, if it already exists.
        2 => pid: i32,
    }

    /// `criu_version`: criu's version.
    pub struct Version {
        /// The first number.
        1 => major: i32,
        /// The second number.
        2 => minor: i32,
        /// The third number.
        4 => sublevel: i32,
    }

    /// `criu_resp`: a response, or a notification.
    pub struct Response {
        /// The response's type: one of [`kind`].
        1 => kind: i32,
        /// Whether the request succeeded.
        2 => success: bool,
        /// The result of a restore.
        4 => restored: Option<Restored>,
        /// The stage that criu has reached.
        5 => notice: Option<Notice>,
        /// The errno, if the request failed.
        7 => errno: i32,
        /// The supported features.
        8 => features: Option<Features>,
        /// criu's version.
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
        let options =
            Options { cgroup_dump_controllers: alloc::vec![String::new()], ..Options::default() };
        assert_eq!(options.encode(), [0xda, 0x02, 0]);
    }

    #[test]
    fn an_answer() {
        // The response of criu 4.2 to a restore that failed, without the error message.
        let bytes = b"\x08\x02\x10\x00\x22\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x38\x16";
        let answer = Response::decode(bytes).unwrap();
        assert_eq!((answer.kind, answer.success, answer.errno), (kind::RESTORE, false, 22));
        assert_eq!(answer.restored, Some(Restored { pid: -1 }));
    }
}
