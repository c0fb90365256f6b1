//! System call filters, on the container's process and on processes that join it.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::profile;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(errno_default),
    case!(errno_chosen),
    case!(kill_process),
    case!(default_action_with_allow_list),
    case!(arguments_are_compared),
    case!(arguments_masked),
    case!(arguments_all_must_match),
    case!(exec_is_filtered_too),
    case!(unknown_call_names_are_skipped),
    case!(unknown_action),
    case!(mode_is_filter),
    case!(with_no_new_privileges_off),
    case!(without_capabilities),
    case!(engines_profile),
    case!(engines_profile_for_another_user),
    case!(default_errno),
    case!(errno_of_an_action_without_one).unlike_runc(),
    case!(filter_that_forbids_to_end).unlike_runc(),
    case!(filter_that_forbids_to_execute).unlike_runc(),
    case!(log_flag),
    case!(same_profile_twice),
    case!(thirty_two_bit_calls_are_covered),
];

/// Returns a filter that allows everything that `rules` do not match.
fn deny(rules: Value) -> Value {
    json!({ "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "syscalls": rules })
}

fn errno_default(bed: &Bed) {
    let filter = deny(json!([{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }]));
    let outcome = bed
        .bundle()
        .set("/linux/seccomp", filter)
        .sh("mkdir /tmp/d; touch /tmp/f && echo fine")
        .make()
        .run()
        .ok();
    assert_eq!(outcome.stdout, "fine\n");
    assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
}

fn errno_chosen(bed: &Bed) {
    let filter = deny(
        json!([{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28 }]),
    );
    let outcome =
        bed.bundle().set("/linux/seccomp", filter).sh("mkdir /tmp/d").make().run().exits(1);
    assert!(outcome.stderr.contains("No space left on device"), "{outcome}");
}

fn kill_process(bed: &Bed) {
    for action in ["SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD"] {
        let filter = deny(json!([{ "names": ["mkdir", "mkdirat"], "action": action }]));
        // 31 is SIGSYS: the shell reports the signal that killed its child.
        let outcome = bed
            .bundle()
            .set("/linux/seccomp", filter)
            .sh("mkdir /tmp/d; echo $?")
            .make()
            .run()
            .ok();
        assert_eq!(outcome.stdout, "159\n", "{action}");
    }
}

fn default_action_with_allow_list(bed: &Bed) {
    let names = [
        "access",
        "arch_prctl",
        "brk",
        "clone",
        "close",
        "dup",
        "dup2",
        "execve",
        "exit",
        "exit_group",
        "fcntl",
        "fork",
        "fstat",
        "fstatfs",
        "futex",
        "getcwd",
        "getdents64",
        "getegid",
        "geteuid",
        "getgid",
        "getpid",
        "getppid",
        "getrandom",
        "gettid",
        "getuid",
        "ioctl",
        "lseek",
        "madvise",
        "mmap",
        "mprotect",
        "mremap",
        "munmap",
        "newfstatat",
        "open",
        "openat",
        "openat2",
        "poll",
        "prctl",
        "pread64",
        "prlimit64",
        "read",
        "readlink",
        "readlinkat",
        "rseq",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "set_robust_list",
        "set_tid_address",
        "setuid",
        "setgid",
        "sigaltstack",
        "stat",
        "lstat",
        "statfs",
        "statx",
        "sysinfo",
        "uname",
        "vfork",
        "wait4",
        "write",
        "writev",
        "capget",
        "capset",
        "setgroups",
        "chdir",
        "fchdir",
        "close_range",
        "execveat",
        "sched_yield",
        "nanosleep",
        "clock_nanosleep",
        "epoll_pwait",
        "epoll_ctl",
        "epoll_create1",
        "eventfd2",
        "pipe2",
        "tgkill",
        "sched_getaffinity",
        "faccessat2",
        "fchown",
        "fchmod",
        "umask",
        "setsid",
        "rt_sigtimedwait",
        "getsockopt",
        "recvmsg",
        "sendmsg",
        "sendto",
        "recvfrom",
    ];
    let filter = json!({
        "defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{ "names": &names[..], "action": "SCMP_ACT_ALLOW" }],
    });
    let outcome = bed
        .bundle()
        .set("/linux/seccomp", filter)
        .sh("echo alive; mkdir /tmp/d")
        .make()
        .run()
        .exits(1);
    assert_eq!(outcome.stdout, "alive\n");
    assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
}

/// Returns a filter that refuses kill(2) if the second argument, the signal, matches `test`.
fn kill_filter(test: Value) -> Value {
    deny(json!([{ "names": ["kill"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13, "args": [test] }]))
}

/// Tries a few signals; returns the numbers of those that `filter` does not allow `kill` to send.
fn refused_signals(bed: &Bed, filter: Value) -> String {
    let script = "trap '' 1 2 10 12 15; for s in 1 2 10 12 15; do kill -$s $$ 2>/dev/null || printf '%s ' $s; done";
    bed.bundle().set("/linux/seccomp", filter).sh(script).make().run().ok().stdout
}

fn arguments_are_compared(bed: &Bed) {
    let test = |op: &str| kill_filter(json!({ "index": 1, "value": 10, "op": op }));
    assert_eq!(refused_signals(bed, test("SCMP_CMP_EQ")), "10 ");
    assert_eq!(refused_signals(bed, test("SCMP_CMP_NE")), "1 2 12 15 ");
    assert_eq!(refused_signals(bed, test("SCMP_CMP_LT")), "1 2 ");
    assert_eq!(refused_signals(bed, test("SCMP_CMP_LE")), "1 2 10 ");
    assert_eq!(refused_signals(bed, test("SCMP_CMP_GT")), "12 15 ");
    assert_eq!(refused_signals(bed, test("SCMP_CMP_GE")), "10 12 15 ");
}

fn arguments_masked(bed: &Bed) {
    let test = json!({ "index": 1, "value": 8, "valueTwo": 8, "op": "SCMP_CMP_MASKED_EQ" });
    assert_eq!(refused_signals(bed, kill_filter(test)), "10 12 15 ");
}

fn arguments_all_must_match(bed: &Bed) {
    let filter = deny(json!([{
        "names": ["kill"], "action": "SCMP_ACT_ERRNO",
        "args": [
            { "index": 1, "value": 2, "op": "SCMP_CMP_GE" },
            { "index": 0, "value": 1, "op": "SCMP_CMP_EQ" },
        ],
    }]));
    assert_eq!(refused_signals(bed, filter), "2 10 12 15 ", "the shell is pid 1");
}

fn exec_is_filtered_too(bed: &Bed) {
    let filter = deny(json!([{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }]));
    let c = bed.bundle().set("/linux/seccomp", filter).make().detached();
    let outcome = c.exec(&["mkdir", "/tmp/d"]).exits(1);
    assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
    assert_eq!(c.exec(&["grep", "Seccomp:", "/proc/self/status"]).ok().stdout, "Seccomp:\t2\n");
}

fn unknown_call_names_are_skipped(bed: &Bed) {
    let filter = deny(
        json!([{ "names": ["call_of_tomorrow", "mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }]),
    );
    bed.bundle().set("/linux/seccomp", filter).sh("mkdir /tmp/d").make().run().exits(1);
}

fn unknown_action(bed: &Bed) {
    let filter = json!({ "defaultAction": "SCMP_ACT_SMILE" });
    let c = bed.bundle().set("/linux/seccomp", filter).make();
    c.create().fails("SCMP_ACT_SMILE");
    assert!(!c.exists());
}

fn mode_is_filter(bed: &Bed) {
    let filter = deny(json!([{ "names": ["acct"], "action": "SCMP_ACT_ERRNO" }]));
    let outcome = bed
        .bundle()
        .set("/linux/seccomp", filter)
        .sh("grep -E '^Seccomp' /proc/self/status")
        .make()
        .run()
        .ok();
    assert_eq!(outcome.stdout, "Seccomp:\t2\nSeccomp_filters:\t1\n");
}

fn with_no_new_privileges_off(bed: &Bed) {
    let filter = deny(json!([{ "names": ["acct"], "action": "SCMP_ACT_ERRNO" }]));
    for flag in [true, false] {
        let c = bed
            .bundle()
            .set("/linux/seccomp", filter.clone())
            .set("/process/noNewPrivileges", json!(flag))
            .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
            .sh("grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status")
            .make();
        assert_eq!(c.run().ok().stdout, format!("NoNewPrivs:\t{}\nSeccomp:\t2\n", i32::from(flag)));
    }
}

/// Of the sets that the change of user leaves, only the permitted one would do, and only for the filter.
fn without_capabilities(bed: &Bed) {
    let filter = deny(json!([{ "names": ["acct"], "action": "SCMP_ACT_ERRNO" }]));
    let mut bundle = bed
        .bundle()
        .set("/linux/seccomp", filter)
        .set("/process/noNewPrivileges", json!(false))
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }));
    bundle.config["process"].as_object_mut().expect("process").remove("capabilities");
    let c = bundle.sh("grep -E '^(Seccomp|CapPrm|CapEff):' /proc/self/status").make();
    let none = "0".repeat(16);
    assert_eq!(c.run().ok().stdout, format!("CapPrm:\t{none}\nCapEff:\t{none}\nSeccomp:\t2\n"));
}

fn engines_profile(bed: &Bed) {
    let filter = profile::seccomp(dayfly_tests::bundle::CAPABILITIES);
    let script = "echo alive; mkdir /tmp/d && ls /tmp; unshare -m true; mount -t tmpfs none /mnt; busybox swapoff /x; (sleep 0.01 & wait); date >/dev/null";
    let outcome = bed.bundle().set("/linux/seccomp", filter).sh(script).make().run().ok();
    assert_eq!(outcome.stdout, "alive\nd\n", "{outcome}");
    assert_eq!(
        outcome.stderr.to_lowercase().matches("operation not permitted").count()
            + outcome.stderr.matches("permission denied").count(),
        3,
        "{outcome}"
    );
}

fn engines_profile_for_another_user(bed: &Bed) {
    let filter = profile::seccomp(dayfly_tests::bundle::CAPABILITIES);
    let c = bed
        .bundle()
        .set("/linux/seccomp", filter)
        .set("/process/user", json!({ "uid": 1000, "gid": 1000, "additionalGids": [5] }))
        .set("/process/noNewPrivileges", json!(true))
        .sh("id -u; id -G")
        .make()
        .run()
        .ok();
    assert_eq!(c.stdout, "1000\n1000 5\n");
}

fn default_errno(bed: &Bed) {
    let filter = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38 }],
    });
    let outcome =
        bed.bundle().set("/linux/seccomp", filter).sh("mkdir /tmp/d").make().run().exits(1);
    assert!(outcome.stderr.contains("Function not implemented"), "{outcome}");
}

fn log_flag(bed: &Bed) {
    for flag in
        ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"]
    {
        let mut filter = deny(json!([{ "names": ["acct"], "action": "SCMP_ACT_ERRNO" }]));
        filter["flags"] = json!([flag]);
        bed.bundle().set("/linux/seccomp", filter).args(&["/bin/true"]).make().run().ok();
    }
}

fn same_profile_twice(bed: &Bed) {
    // The second and third containers find in the cache what the first has compiled.
    let filter =
        deny(json!([{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5 }]));
    for _ in 0..3 {
        let outcome = bed
            .bundle()
            .set("/linux/seccomp", filter.clone())
            .sh("mkdir /tmp/d")
            .make()
            .run()
            .exits(1);
        assert!(
            outcome.stderr.contains("I/O error") || outcome.stderr.contains("Input/output error"),
            "{outcome}"
        );
    }
}

fn thirty_two_bit_calls_are_covered(bed: &Bed) {
    // A filter for one architecture blocks the calls of all other architectures.
    let filter = json!({
        "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{ "names": ["acct"], "action": "SCMP_ACT_ERRNO" }],
    });
    bed.bundle().set("/linux/seccomp", filter).args(&["/bin/true"]).make().run().ok();
}

/// According to config-linux.md, the runtime MUST fail if an action without an errno has `errnoRet`.
fn errno_of_an_action_without_one(bed: &Bed) {
    let rules = json!([{ "names": ["acct"], "action": "SCMP_ACT_KILL", "errnoRet": 5 }]);
    let mut filter = deny(rules);
    bed.bundle().set("/linux/seccomp", filter.clone()).make().run().fails("takes none");
    filter["syscalls"] = json!([]);
    filter["defaultErrnoRet"] = json!(5);
    bed.bundle().set("/linux/seccomp", filter).make().run().fails("takes none");
    let rules = json!([{ "names": ["acct"], "action": "SCMP_ACT_ERRNO", "errnoRet": 4096 }]);
    bed.bundle().set("/linux/seccomp", deny(rules)).make().run().fails("larger than 4095");
}

/// The filter forbids execve(2) and most calls with which init could report that: write(2) is left.
fn filter_that_forbids_to_execute(bed: &Bed) {
    let allows_write = json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{ "names": ["write"], "action": "SCMP_ACT_ALLOW" }],
    });
    let forbids = deny(json!([{ "names": ["execve", "execveat"], "action": "SCMP_ACT_ERRNO" }]));
    for (filter, reason) in
        [(allows_write, "function not implemented"), (forbids, "operation not permitted")]
    {
        let bundle = bed.bundle().set("/process/noNewPrivileges", json!(true));
        let c = bundle.set("/linux/seccomp", filter).args(&["/bin/true"]).make();
        let _ = c.run().fails_as(255, &format!("exec /bin/true: {reason}"));
        c.assert_gone("run");
    }
}

/// The filter forbids execve(2), write(2) and exit(2): the command must detect all the same that the exec failed.
fn filter_that_forbids_to_end(bed: &Bed) {
    let filter = json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{ "names": ["mkdir"], "action": "SCMP_ACT_ALLOW" }],
    });
    let c = bed.bundle().set("/linux/seccomp", filter).make();
    // The process ends as if the filter had killed its program.
    c.run().exits(132);
    assert!(!c.exists());
    c.create().ok();
    let outcome = c.start();
    assert!(!outcome.died_of_signal(), "{outcome}");
    c.wait_status("stopped");
    c.delete().ok();
}
