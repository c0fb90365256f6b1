//! The system calls that dayfly's own profile allows, grouped by purpose.
//!
//! Calls that are in no group fail with EPERM. Calls newer than all listed ones fail with ENOSYS; dayfly's compiler
//! adds this rule to every profile. The rules allow the same calls as the engines' default profiles. Sources: the
//! tables of calls in the engines' documentation, and the kernel's documentation of the privileges that each call
//! requires (capabilities(7) and the manual pages of the calls).
//!
//! The following calls are in no group, so no capabilities of a container allow them:
//!
//! - replacing the kernel or accessing its memory: `kexec_load`, `kexec_file_load`, `swapon`, `swapoff`;
//! - keyrings, which are not namespaced: `keyctl`, `add_key`, `request_key`;
//! - common entry points of kernel exploits: `userfaultfd`, `io_uring_*`;
//! - moving memory between nodes: `move_pages`, `migrate_pages`;
//! - changing the root mount: `pivot_root`;
//! - calls that Linux has removed or never had: `uselib`, `ustat`, `sysfs`, `_sysctl`, `nfsservctl`, `vm86`,
//!   `create_module`, `get_kernel_syms`, `query_module`, `bdflush`, `afs_syscall`.

/// The condition on the container or machine under which a group applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The group applies in every container.
    Always,
    /// The group applies on machines that run programs of one of these architectures, given by Go's names.
    On(&'static [&'static str]),
    /// The group applies in containers that have any of these capabilities.
    With(&'static [&'static str]),
    /// The group applies in containers that do not have this capability.
    Without(&'static str),
}

/// A condition on the first argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The argument may have any value.
    Nothing,
    /// The argument must be one of these values.
    First(&'static [u64]),
    /// The argument must be a small number other than this one. A value that equals this number only in its low bits
    /// does not match either.
    NotFirst(u64),
    /// The argument must have none of these bits set.
    NoneOf(u64),
}

/// A group of calls to which the same rule applies.
#[derive(Debug)]
pub struct Group {
    /// The condition under which the group applies.
    pub when: When,
    /// The names of the calls. Names that an architecture does not define are skipped on that architecture.
    pub calls: &'static [&'static str],
    /// The condition on the calls' first argument.
    pub compare: Compare,
    /// The errno with which the calls fail, or `None` if they are allowed.
    pub errno: Option<u32>,
}

/// Allows calls.
const fn allow(when: When, calls: &'static [&'static str]) -> Group {
    Group { when, calls, compare: Compare::Nothing, errno: None }
}

/// Allows calls whose first argument matches the condition.
const fn allow_if(when: When, compare: Compare, calls: &'static [&'static str]) -> Group {
    Group { when, calls, compare, errno: None }
}

/// The number of the errno ENOSYS.
const NO_SUCH_CALL: u32 = 38;
/// AF_VSOCK: sockets to the hypervisor and to its other guests. No namespace isolates them.
const VSOCK: u64 = 40;
/// The flags CLONE_NEW*: NS, CGROUP, UTS, IPC, USER, PID, NET. A process that creates a user namespace gets all
/// capabilities in it, which gives it access to much more of the kernel.
const NAMESPACES: u64 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;
/// PER_LINUX and PER_LINUX32, each with and without UNAME26, and 0xffffffff, which queries the current personality.
/// Other personalities are for programs of other systems, or disable protections (ADDR_NO_RANDOMIZE,
/// READ_IMPLIES_EXEC).
const PERSONALITIES: &[u64] = &[0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// All groups.
pub const GROUPS: &[Group] = &[
    // Open files and their contents.
    allow(
        When::Always,
        &[
            "open",
            "openat",
            "openat2",
            "creat",
            "close",
            "close_range",
            "read",
            "readv",
            "pread64",
            "preadv",
            "preadv2",
            "write",
            "writev",
            "pwrite64",
            "pwritev",
            "pwritev2",
            "lseek",
            "_llseek",
            "dup",
            "dup2",
            "dup3",
            "fcntl",
            "fcntl64",
            "flock",
            "ioctl",
            "fsync",
            "fdatasync",
            "sync",
            "syncfs",
            "sync_file_range",
            "truncate",
            "truncate64",
            "ftruncate",
            "ftruncate64",
            "fallocate",
            "fadvise64",
            "fadvise64_64",
            "readahead",
            "copy_file_range",
            "sendfile",
            "sendfile64",
            "splice",
            "tee",
            "vmsplice",
            "cachestat",
        ],
    ),
    // Paths and directories.
    allow(
        When::Always,
        &[
            "access",
            "faccessat",
            "faccessat2",
            "stat",
            "stat64",
            "lstat",
            "lstat64",
            "fstat",
            "fstat64",
            "fstatat64",
            "newfstatat",
            "statx",
            "statfs",
            "statfs64",
            "fstatfs",
            "fstatfs64",
            "readlink",
            "readlinkat",
            "getdents",
            "getdents64",
            "readdir",
            "getcwd",
            "chdir",
            "fchdir",
            "mkdir",
            "mkdirat",
            "rmdir",
            "mknod",
            "mknodat",
            "link",
            "linkat",
            "symlink",
            "symlinkat",
            "unlink",
            "unlinkat",
            "rename",
            "renameat",
            "renameat2",
            "umask",
            "name_to_handle_at",
        ],
    ),
    // Attributes of files.
    allow(
        When::Always,
        &[
            "chmod",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "chown",
            "chown32",
            "fchown",
            "fchown32",
            "fchownat",
            "lchown",
            "lchown32",
            "utime",
            "utimes",
            "futimesat",
            "utimensat",
            "utimensat_time64",
            "getxattr",
            "lgetxattr",
            "fgetxattr",
            "getxattrat",
            "setxattr",
            "lsetxattr",
            "fsetxattr",
            "setxattrat",
            "listxattr",
            "llistxattr",
            "flistxattr",
            "listxattrat",
            "removexattr",
            "lremovexattr",
            "fremovexattr",
            "removexattrat",
        ],
    ),
    // Watching files. Fanotify marks need a descriptor of fanotify_init(2), which requires CAP_SYS_ADMIN.
    allow(
        When::Always,
        &[
            "inotify_init",
            "inotify_init1",
            "inotify_add_watch",
            "inotify_rm_watch",
            "fanotify_mark",
        ],
    ),
    // Waiting for several events.
    allow(
        When::Always,
        &[
            "poll",
            "ppoll",
            "ppoll_time64",
            "select",
            "_newselect",
            "pselect6",
            "pselect6_time64",
            "epoll_create",
            "epoll_create1",
            "epoll_ctl",
            "epoll_ctl_old",
            "epoll_wait",
            "epoll_wait_old",
            "epoll_pwait",
            "epoll_pwait2",
            "eventfd",
            "eventfd2",
            "signalfd",
            "signalfd4",
            "timerfd_create",
            "timerfd_settime",
            "timerfd_settime64",
            "timerfd_gettime",
            "timerfd_gettime64",
            "pipe",
            "pipe2",
        ],
    ),
    // Linux AIO (io_submit).
    allow(
        When::Always,
        &[
            "io_setup",
            "io_destroy",
            "io_submit",
            "io_cancel",
            "io_getevents",
            "io_pgetevents",
            "io_pgetevents_time64",
            "ioprio_get",
            "ioprio_set",
        ],
    ),
    // The process's own memory.
    allow(
        When::Always,
        &[
            "brk",
            "mmap",
            "mmap2",
            "munmap",
            "mremap",
            "mprotect",
            "madvise",
            "mincore",
            "msync",
            "mlock",
            "mlock2",
            "mlockall",
            "munlock",
            "munlockall",
            "remap_file_pages",
            "mseal",
            "map_shadow_stack",
            "pkey_alloc",
            "pkey_free",
            "pkey_mprotect",
            "memfd_create",
            "memfd_secret",
            "membarrier",
            "process_mrelease",
        ],
    ),
    // Threads and synchronisation.
    allow(
        When::Always,
        &[
            "futex",
            "futex_time64",
            "futex_waitv",
            "futex_wait",
            "futex_wake",
            "futex_requeue",
            "get_robust_list",
            "set_robust_list",
            "set_tid_address",
            "get_thread_area",
            "set_thread_area",
            "rseq",
            "gettid",
        ],
    ),
    // Creation and end of processes.
    allow(
        When::Always,
        &[
            "fork",
            "vfork",
            "execve",
            "execveat",
            "exit",
            "exit_group",
            "wait4",
            "waitid",
            "waitpid",
            "getpid",
            "getppid",
            "getpgid",
            "setpgid",
            "getpgrp",
            "getsid",
            "setsid",
            "prctl",
            "pidfd_open",
            "pidfd_send_signal",
            "restart_syscall",
            "uretprobe",
        ],
    ),
    // Signals.
    allow(
        When::Always,
        &[
            "kill",
            "tkill",
            "tgkill",
            "pause",
            "signal",
            "sigaction",
            "sigaltstack",
            "sigpending",
            "sigprocmask",
            "sigreturn",
            "sigsuspend",
            "rt_sigaction",
            "rt_sigpending",
            "rt_sigprocmask",
            "rt_sigqueueinfo",
            "rt_tgsigqueueinfo",
            "rt_sigreturn",
            "rt_sigsuspend",
            "rt_sigtimedwait",
            "rt_sigtimedwait_time64",
        ],
    ),
    // Users, groups, capabilities: these calls cannot give a process more privileges than it has.
    allow(
        When::Always,
        &[
            "getuid",
            "getuid32",
            "geteuid",
            "geteuid32",
            "getgid",
            "getgid32",
            "getegid",
            "getegid32",
            "getresuid",
            "getresuid32",
            "getresgid",
            "getresgid32",
            "getgroups",
            "getgroups32",
            "setuid",
            "setuid32",
            "setgid",
            "setgid32",
            "setreuid",
            "setreuid32",
            "setregid",
            "setregid32",
            "setresuid",
            "setresuid32",
            "setresgid",
            "setresgid32",
            "setfsuid",
            "setfsuid32",
            "setfsgid",
            "setfsgid32",
            "setgroups",
            "setgroups32",
            "capget",
            "capset",
        ],
    ),
    // Calls that restrict the calling process further.
    allow(
        When::Always,
        &["seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"],
    ),
    // Inspecting processes of the same user. The kernel checks the user itself. Since Linux 4.8, ptrace(2) cannot be
    // used to bypass the seccomp filter of a tracee.
    allow(When::Always, &["ptrace", "process_vm_readv", "process_vm_writev"]),
    // Scheduling and limits.
    allow(
        When::Always,
        &[
            "sched_yield",
            "sched_getaffinity",
            "sched_setaffinity",
            "sched_getattr",
            "sched_setattr",
            "sched_getparam",
            "sched_setparam",
            "sched_getscheduler",
            "sched_setscheduler",
            "sched_get_priority_max",
            "sched_get_priority_min",
            "sched_rr_get_interval",
            "sched_rr_get_interval_time64",
            "getpriority",
            "setpriority",
            "getrlimit",
            "ugetrlimit",
            "setrlimit",
            "prlimit64",
            "getrusage",
            "getcpu",
        ],
    ),
    // Time. Setting or adjusting the clock requires CAP_SYS_TIME; reading the adjustment requires no capability.
    allow(
        When::Always,
        &[
            "time",
            "times",
            "gettimeofday",
            "clock_gettime",
            "clock_gettime64",
            "clock_getres",
            "clock_getres_time64",
            "clock_nanosleep",
            "clock_nanosleep_time64",
            "clock_adjtime",
            "clock_adjtime64",
            "adjtimex",
            "nanosleep",
            "alarm",
            "getitimer",
            "setitimer",
            "timer_create",
            "timer_delete",
            "timer_getoverrun",
            "timer_gettime",
            "timer_gettime64",
            "timer_settime",
            "timer_settime64",
        ],
    ),
    // Using existing sockets. 32-bit programs use a single call for all of these, socketcall(2), with its arguments in
    // memory.
    allow(
        When::Always,
        &[
            "socketpair",
            "socketcall",
            "bind",
            "listen",
            "accept",
            "accept4",
            "connect",
            "shutdown",
            "getsockname",
            "getpeername",
            "getsockopt",
            "setsockopt",
            "send",
            "sendto",
            "sendmsg",
            "sendmmsg",
            "recv",
            "recvfrom",
            "recvmsg",
            "recvmmsg",
            "recvmmsg_time64",
        ],
    ),
    // Creating sockets.
    allow_if(When::Always, Compare::NotFirst(VSOCK), &["socket"]),
    // System V and POSIX IPC, which namespaces isolate.
    allow(
        When::Always,
        &[
            "ipc",
            "msgctl",
            "msgget",
            "msgrcv",
            "msgsnd",
            "semctl",
            "semget",
            "semop",
            "semtimedop",
            "semtimedop_time64",
            "shmat",
            "shmctl",
            "shmdt",
            "shmget",
            "mq_open",
            "mq_unlink",
            "mq_notify",
            "mq_getsetattr",
            "mq_timedsend",
            "mq_timedsend_time64",
            "mq_timedreceive",
            "mq_timedreceive_time64",
        ],
    ),
    // System information and random numbers.
    allow(When::Always, &["uname", "sysinfo", "getrandom"]),
    allow_if(When::Always, Compare::First(PERSONALITIES), &["personality"]),
    // Creating processes. New namespaces require CAP_SYS_ADMIN. A filter cannot inspect the arguments of clone3,
    // because they are in memory, so clone3 fails with ENOSYS and C libraries fall back to clone.
    allow_if(When::Without("CAP_SYS_ADMIN"), Compare::NoneOf(NAMESPACES), &["clone"]),
    Group {
        when: When::Without("CAP_SYS_ADMIN"),
        calls: &["clone3"],
        compare: Compare::Nothing,
        errno: Some(NO_SUCH_CALL),
    },
    // Mounts, namespaces and the other calls that require CAP_SYS_ADMIN.
    allow(
        When::With(&["CAP_SYS_ADMIN"]),
        &[
            "clone",
            "clone3",
            "unshare",
            "setns",
            "mount",
            "umount",
            "umount2",
            "mount_setattr",
            "move_mount",
            "open_tree",
            "open_tree_attr",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "statmount",
            "listmount",
            "sethostname",
            "setdomainname",
            "quotactl",
            "quotactl_fd",
            "fanotify_init",
            "lookup_dcookie",
        ],
    ),
    // BPF and performance counters. Before Linux 5.8, these calls required CAP_SYS_ADMIN.
    allow(When::With(&["CAP_SYS_ADMIN", "CAP_BPF"]), &["bpf"]),
    allow(When::With(&["CAP_SYS_ADMIN", "CAP_PERFMON"]), &["perf_event_open"]),
    // The kernel log.
    allow(When::With(&["CAP_SYS_ADMIN", "CAP_SYSLOG"]), &["syslog"]),
    // Opening a file by handle bypasses the permissions of the file's parent directories.
    allow(When::With(&["CAP_DAC_READ_SEARCH"]), &["open_by_handle_at"]),
    allow(When::With(&["CAP_SYS_BOOT"]), &["reboot"]),
    allow(When::With(&["CAP_SYS_CHROOT"]), &["chroot"]),
    allow(When::With(&["CAP_SYS_MODULE"]), &["init_module", "finit_module", "delete_module"]),
    allow(When::With(&["CAP_SYS_PACCT"]), &["acct"]),
    // Access to processes of other users.
    allow(When::With(&["CAP_SYS_PTRACE"]), &["kcmp", "pidfd_getfd", "process_madvise"]),
    allow(When::With(&["CAP_SYS_RAWIO"]), &["iopl", "ioperm"]),
    allow(
        When::With(&["CAP_SYS_TIME"]),
        &["settimeofday", "stime", "clock_settime", "clock_settime64"],
    ),
    allow(When::With(&["CAP_SYS_TTY_CONFIG"]), &["vhangup"]),
    // NUMA memory policy.
    allow(
        When::With(&["CAP_SYS_NICE"]),
        &["get_mempolicy", "set_mempolicy", "set_mempolicy_home_node", "mbind"],
    ),
    // Thread-local storage registers, and segments.
    allow(When::On(&["amd64", "x32"]), &["arch_prctl"]),
    allow(When::On(&["amd64", "x32", "x86"]), &["modify_ldt"]),
    allow(
        When::On(&["arm", "arm64"]),
        &[
            "arm_fadvise64_64",
            "arm_sync_file_range",
            "sync_file_range2",
            "breakpoint",
            "cacheflush",
            "set_tls",
        ],
    ),
];
