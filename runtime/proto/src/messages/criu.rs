//! What criu is asked for, and what it answers: rpc.proto of CRIU 4.2 (criu.org/RPC), over the socket of `criu swrk`.
//!
//! The file is proto2, which tells a field that is absent from one that is zero: where that makes a difference the field
//! is an `Option`. What nobody here needs is left out.

use alloc::string::String;
use alloc::vec::Vec;

/// What a request is about, and an answer to it.
pub mod kind {
    /// Save a tree of processes.
    pub const DUMP: i32 = 1;
    /// Make one again.
    pub const RESTORE: i32 = 2;
    /// A stage was reached; criu waits for an answer.
    pub const NOTIFY: i32 = 6;
    /// What can this kernel do?
    pub const FEATURE_CHECK: i32 = 9;
    /// Which version is it?
    pub const VERSION: i32 = 10;

    /// The word that rpc.proto has for it.
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

/// What is done with cgroups.
pub mod cgroups {
    /// Nothing.
    pub const IGNORE: i32 = 0;
    /// What is missing is made, and gets its limits.
    pub const SOFT: i32 = 3;
    /// All get their limits.
    pub const FULL: i32 = 4;
    /// Refused if something is there.
    pub const STRICT: i32 = 5;
    /// As criu likes: [`SOFT`].
    pub const DEFAULT: i32 = 6;
}

message! {
    /// `criu_page_server_info`: who takes pages, or serves them.
    pub struct PageServer {
        /// Its address.
        1 => address: String,
        /// Its TCP port.
        2 => port: i32,
    }

    /// `ext_mount_map`: a mount that is none of criu's business.
    pub struct ExternalMount {
        /// On a dump its place in the container, on a restore the name it got.
        1 => key: String,
        /// On a dump the name it gets, on a restore a path of the host.
        2 => value: String,
    }

    /// `join_namespace`: a namespace that is there already.
    pub struct JoinedNamespace {
        /// Which kind, as below /proc/PID/ns.
        1 => kind: String,
        /// Its file.
        2 => file: String,
    }

    /// `inherit_fd`: an open file that criu brings along.
    pub struct InheritedFd {
        /// What it is called in the images.
        1 => key: String,
        /// Its number in criu's process.
        2 => fd: Option<i32>,
    }

    /// `cgroup_root`: where the cgroups of a hierarchy begin.
    pub struct CgroupRoot {
        /// The hierarchy; an empty one is cgroup v2, an absent one all of them.
        1 => controller: Option<String>,
        /// The path in it.
        2 => path: String,
    }

    /// `criu_opts`: what a dump or a restore depends on.
    pub struct Options {
        /// The directory of images, a descriptor of the asker's.
        1 => images_dir_fd: Option<i32>,
        /// The root of the tree of processes.
        2 => pid: i32,
        /// Whether they go on after a dump.
        3 => leave_running: bool,
        /// Whether UNIX sockets may lead outside.
        4 => ext_unix_sk: bool,
        /// Whether connections of TCP are kept.
        5 => tcp_established: bool,
        /// Whether a device is found by its path where its number has changed.
        6 => evasive_devices: bool,
        /// Whether there may be sessions and terminals of outside.
        7 => shell_job: bool,
        /// Whether there may be locks of files.
        8 => file_locks: bool,
        /// How much goes to the log: 4 is everything.
        9 => log_level: i32,
        /// The log's name in the work directory.
        10 => log_file: String,
        /// Who takes the pages of a dump.
        11 => page_server: Option<PageServer>,
        /// Whether stages are told of.
        12 => notify_scripts: bool,
        /// The root of the tree of mounts.
        13 => root: String,
        /// The work directory, likewise.
        17 => work_dir_fd: Option<i32>,
        /// Whether files without a name get one for a while.
        18 => link_remap: bool,
        /// Mounts that come from outside.
        23 => external_mounts: Vec<ExternalMount>,
        /// What older ones have for `cgroups_mode`.
        24 => manage_cgroups: bool,
        /// Where cgroups begin.
        25 => cgroup_roots: Vec<CgroupRoot>,
        /// Whether the restored init is a child of the asker.
        26 => rst_sibling: bool,
        /// Open files that are brought along.
        27 => inherited_fds: Vec<InheritedFd>,
        /// One of [`cgroups`].
        34 => cgroups_mode: Option<i32>,
        /// Other things of outside: `net[INODE]:NAME`.
        37 => external: Vec<String>,
        /// Namespaces that are made again without what is in them, as flags of clone(2).
        38 => empty_ns: u32,
        /// Namespaces that are joined.
        39 => joined_namespaces: Vec<JoinedNamespace>,
        /// The cgroup to freeze.
        44 => freeze_cgroup: String,
        /// Whether connections that are being made are left out.
        46 => tcp_skip_in_flight: bool,
        /// Whether pages come when they are touched.
        48 => lazy_pages: bool,
        /// Who is told when pages are served, before 3.15.
        49 => status_fd: Option<i32>,
        /// Whether masters of terminals that nobody has are handed over.
        50 => orphan_pts_master: bool,
        /// A file with options that win over these.
        51 => config_file: String,
        /// The profile of a security module.
        53 => lsm_profile: String,
        /// The context of its mounts.
        63 => lsm_mount_context: String,
    }

    /// `criu_features`: what a kernel can do.
    pub struct Features {
        /// Tell which pages were written to (CONFIG_MEM_SOFT_DIRTY).
        1 => mem_track: bool,
        /// Bring pages when they are touched (userfaultfd(2)).
        2 => lazy_pages: bool,
    }

    /// `criu_req`: a request, or the answer to a notice.
    pub struct Request {
        /// One of [`kind`].
        1 => kind: i32,
        /// What it depends on.
        2 => options: Option<Options>,
        /// Whether all went well at the stage that criu told of.
        3 => notify_success: Option<bool>,
        /// Whether others follow.
        4 => keep_open: bool,
        /// What is asked about.
        5 => features: Option<Features>,
    }

    /// `criu_restore_resp`: what was restored.
    pub struct Restored {
        /// The root of the tree of processes.
        1 => pid: i32,
    }

    /// `criu_notify`: a stage.
    pub struct Notice {
        /// Its name.
        1 => script: String,
        /// The root of the tree of processes, where there is one.
        2 => pid: i32,
    }

    /// `criu_version`: which version it is.
    pub struct Version {
        /// The first number.
        1 => major: i32,
        /// The second one.
        2 => minor: i32,
        /// The third one.
        4 => sublevel: i32,
    }

    /// `criu_resp`: an answer, or a notice.
    pub struct Response {
        /// One of [`kind`].
        1 => kind: i32,
        /// Whether what was asked for is done.
        2 => success: bool,
        /// What was restored.
        4 => restored: Option<Restored>,
        /// The stage that was reached.
        5 => notice: Option<Notice>,
        /// Why it is not.
        7 => errno: i32,
        /// What the kernel can do.
        8 => features: Option<Features>,
        /// Which version it is.
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
        // That of criu 4.2 to a restore that failed, but for its message.
        let bytes = b"\x08\x02\x10\x00\x22\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x38\x16";
        let answer = Response::decode(bytes).unwrap();
        assert_eq!((answer.kind, answer.success, answer.errno), (kind::RESTORE, false, 22));
        assert_eq!(answer.restored, Some(Restored { pid: -1 }));
    }
}
