//! The process: user, groups, limits, capabilities, sysctls, environment.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(arguments_are_passed_as_they_are),
    case!(environment_is_exactly_the_configs),
    case!(home_is_added),
    case!(path_lookup_uses_the_containers_path),
    case!(cwd),
    case!(cwd_is_made),
    case!(cwd_relative),
    case!(no_arguments),
    case!(user_and_groups),
    case!(minus_one_is_no_user).unlike_runc(),
    case!(additional_gids),
    case!(umask),
    case!(default_umask),
    case!(rlimits),
    case!(rlimit_unknown),
    case!(rlimit_duplicate),
    case!(five_capability_sets),
    case!(no_capabilities),
    case!(capabilities_of_another_user),
    case!(ambient_capabilities_survive_exec),
    case!(unknown_capability_is_ignored),
    case!(no_new_privileges),
    case!(oom_score_adj),
    case!(oom_score_adj_untouched),
    case!(sysctl),
    case!(sysctl_of_the_host_refused),
    case!(sysctl_of_a_joined_namespace),
    case!(sysctl_of_the_hosts_ipc_namespace).unlike_runc(),
    case!(capabilities_that_cannot_be_granted),
    case!(session_keyring),
    case!(no_descriptors_leak),
    case!(init_has_no_parent),
    case!(session_and_group),
    case!(annotations_do_not_matter),
    case!(signal_dispositions_are_default),
    case!(terminal_false_means_pipes),
    case!(setuid_with_no_new_privileges),
];

fn arguments_are_passed_as_they_are(bed: &Bed) {
    let arguments = ["/bin/printf", "[%s]", "", "a b", "$HOME", "\"q\"", "tab\there", "ü", "-n"];
    assert_eq!(
        bed.bundle().args(&arguments).make().run().ok().stdout,
        "[][a b][$HOME][\"q\"][tab\there][ü][-n]"
    );
}

fn environment_is_exactly_the_configs(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/env", json!(["PATH=/bin", "HOME=/root", "EMPTY=", "X=a=b"]))
        .args(&["/bin/env"])
        .make();
    let outcome = c.run().ok();
    let mut lines = outcome.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["EMPTY=", "HOME=/root", "PATH=/bin", "X=a=b"]);
}

fn home_is_added(bed: &Bed) {
    let home = |env: &[&str], uid: u32| {
        let bundle = bed
            .bundle()
            .set("/process/env", json!(env))
            .set("/process/user", json!({ "uid": uid, "gid": 0 }))
            .sh("env | grep HOME");
        let passwd = bundle.rootfs().join("etc/passwd");
        // The last line of the file has no line break.
        let mut text = fs::read_to_string(&passwd).expect("passwd");
        text.push_str("last:x:77:77:last:/home/last:/bin/sh");
        fs::remove_file(&passwd).expect("remove");
        fs::write(&passwd, text).expect("write");
        bundle.make().run().ok().stdout
    };
    let path = "PATH=/bin";
    assert_eq!(home(&[path], 0), "HOME=/root\n");
    assert_eq!(home(&[path], 1000), "HOME=/home\n");
    assert_eq!(home(&[path], 4242), "HOME=/\n");
    assert_eq!(home(&[path], 77), "HOME=/home/last\n");
    // An empty value counts as unset.
    assert_eq!(home(&["HOME=", path], 1000), "HOME=/home\n");
    assert_eq!(home(&["HOME=/x", "HOME=", path], 1000), "HOME=/home\n");
    assert_eq!(home(&["HOME=", "HOME=/x", path], 1000), "HOME=/x\n");
}

fn path_lookup_uses_the_containers_path(bed: &Bed) {
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("own")).expect("make");
    fs::hard_link(bundle.rootfs().join("bin/busybox"), bundle.rootfs().join("own/pwd"))
        .expect("link");
    let c = bundle.set("/process/env", json!(["PATH=/nowhere:/own"])).args(&["pwd"]).make();
    assert_eq!(c.run().ok().stdout, "/\n");
    // A directory of this name is not a program.
    for (path, name) in [("PATH=/nowhere", "pwd"), ("PATH=/", "bin"), ("PATH=/nowhere:/", "bin")] {
        let bundle = bed.bundle().set("/process/env", json!([path])).args(&[name]);
        bundle.make().run().fails("executable file not found in $PATH");
    }
    // Without a PATH, no directory is searched for the program.
    for env in [json!(["A=b"]), json!(["PATH="]), json!([])] {
        let c = bed.bundle().set("/process/env", env).args(&["pwd"]).make();
        c.run().fails("exec: \"pwd\": executable file not found in $PATH");
    }
}

fn cwd(bed: &Bed) {
    assert_eq!(
        bed.bundle()
            .set("/process/cwd", json!("/tmp"))
            .args(&["/bin/pwd"])
            .make()
            .run()
            .ok()
            .stdout,
        "/tmp\n"
    );
}

fn cwd_is_made(bed: &Bed) {
    let c = bed.bundle().set("/process/cwd", json!("/not/yet/there")).args(&["/bin/pwd"]).make();
    assert_eq!(c.run().ok().stdout, "/not/yet/there\n");
}

fn cwd_relative(bed: &Bed) {
    bed.bundle()
        .set("/process/cwd", json!("tmp"))
        .make()
        .create()
        .fails("Cwd must be an absolute path");
    bed.bundle()
        .set("/process/cwd", json!(""))
        .make()
        .create()
        .fails("Cwd property must not be empty");
}

fn no_arguments(bed: &Bed) {
    bed.bundle().set("/process/args", json!([])).make().create().fails("args must not be empty");
    bed.bundle().unset("/process").make().create().fails("process property must not be empty");
}

/// To setresuid(2), -1 means "no change": the process would stay root.
fn minus_one_is_no_user(bed: &Bed) {
    for field in ["uid", "gid"] {
        let mut user = json!({ "uid": 1000, "gid": 1000 });
        user[field] = json!(u32::MAX);
        let c = bed.bundle().set("/process/user", user).args(&["/bin/id"]).make();
        c.run().fails("not a user or group id");
    }
    let c = bed.bundle().sh("sleep 1000").make().detached();
    c.exec_with(&["--user", "4294967295"], &["/bin/id"]).fails_as(255, "not a user or group id");
}

fn user_and_groups(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/user", json!({ "uid": 1000, "gid": 1001 }))
        .sh("id -u; id -g; id -G")
        .make();
    assert_eq!(c.run().ok().stdout, "1000\n1001\n1001\n");
}

fn additional_gids(bed: &Bed) {
    let user = json!({ "uid": 1000, "gid": 1000, "additionalGids": [3000, 10, 2000] });
    let c =
        bed.bundle().set("/process/user", user).sh("id -G; grep Groups /proc/self/status").make();
    let outcome = c.run().ok();
    assert_eq!(
        outcome.lines()[1].split_whitespace().collect::<Vec<_>>(),
        ["Groups:", "10", "2000", "3000"]
    );
}

fn umask(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/user/umask", json!(0o27))
        .sh("umask; touch /tmp/f; stat -c %a /tmp/f")
        .make();
    assert_eq!(c.run().ok().stdout, "0027\n640\n");
}

fn default_umask(bed: &Bed) {
    let c = bed.bundle().unset("/process/user/umask").sh("umask").make();
    assert_eq!(c.run().ok().stdout, "0022\n");
}

fn rlimits(bed: &Bed) {
    let limits = json!([
        { "type": "RLIMIT_NOFILE", "hard": 200, "soft": 100 },
        { "type": "RLIMIT_CORE", "hard": 0, "soft": 0 },
        { "type": "RLIMIT_STACK", "hard": 16_777_216, "soft": 4_194_304 },
        { "type": "RLIMIT_NPROC", "hard": 1000, "soft": 900 },
    ]);
    let c = bed.bundle().set("/process/rlimits", limits).sh("cat /proc/self/limits").make();
    let outcome = c.run().ok();
    let limit = |name: &str| {
        let line = outcome
            .lines()
            .into_iter()
            .find(|line| line.starts_with(name))
            .expect("limit")
            .to_owned();
        line[26..].split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(limit("Max open files"), ["100", "200"]);
    assert_eq!(limit("Max core file size"), ["0", "0"]);
    assert_eq!(limit("Max stack size"), ["4194304", "16777216"]);
    assert_eq!(limit("Max processes"), ["900", "1000"]);
}

fn rlimit_unknown(bed: &Bed) {
    bed.bundle()
        .set("/process/rlimits", json!([{ "type": "RLIMIT_NOPE", "hard": 1, "soft": 1 }]))
        .make()
        .create()
        .fails("wrong rlimit value: RLIMIT_NOPE");
}

fn rlimit_duplicate(bed: &Bed) {
    let limit = json!({ "type": "RLIMIT_NOFILE", "hard": 64, "soft": 64 });
    let outcome =
        bed.bundle().set("/process/rlimits", json!([limit, limit])).sh("ulimit -n").make().run();
    assert!(outcome.code() == 1 || outcome.stdout == "64\n", "{outcome}");
}

/// Returns the five capability sets in the output.
fn sets(text: &str) -> [u64; 5] {
    ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        u64::from_str_radix(line.split('\t').next_back().unwrap_or_default(), 16).expect("hex")
    })
}

const CHOWN: u64 = 1;
const KILL: u64 = 1 << 5;
const NET_RAW: u64 = 1 << 13;

fn five_capability_sets(bed: &Bed) {
    let sets_of = |capabilities: serde_json::Value| {
        let c = bed
            .bundle()
            .set("/process/capabilities", capabilities)
            .args(&["/bin/cat", "/proc/self/status"])
            .make();
        sets(&c.run().ok().stdout)
    };
    // For a process of uid 0 without securebits, execve(2) raises the permitted set to the union of inheritable and
    // bounding.
    let all = json!({
        "bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW"],
        "permitted": ["CAP_CHOWN", "CAP_KILL"],
        "effective": ["CAP_CHOWN"],
        "inheritable": ["CAP_KILL"],
        "ambient": [],
    });
    let full = CHOWN | KILL | NET_RAW;
    assert_eq!(sets_of(all), [KILL, full, full, full, 0]);
}

fn no_capabilities(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/capabilities", json!({}))
        .args(&["/bin/cat", "/proc/self/status"])
        .make();
    assert_eq!(sets(&c.run().ok().stdout), [0; 5]);
}

fn capabilities_of_another_user(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .args(&["/bin/cat", "/proc/self/status"])
        .make();
    let [inheritable, permitted, effective, bounding, ambient] = sets(&c.run().ok().stdout);
    assert_eq!([inheritable, permitted, effective, ambient], [0; 4]);
    assert_ne!(bounding, 0);
}

fn ambient_capabilities_survive_exec(bed: &Bed) {
    let one = ["CAP_NET_RAW"];
    let c = bed
        .bundle()
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .set("/process/capabilities", json!({ "bounding": one, "permitted": one, "effective": one, "inheritable": one, "ambient": one }))
        .args(&["/bin/cat", "/proc/self/status"])
        .make();
    assert_eq!(sets(&c.run().ok().stdout), [NET_RAW; 5]);
}

fn unknown_capability_is_ignored(bed: &Bed) {
    let c = bed
        .bundle()
        .push("/process/capabilities/bounding", json!("CAP_TIME_TRAVEL"))
        .args(&["/bin/true"])
        .make();
    c.run().ok();
}

fn no_new_privileges(bed: &Bed) {
    for (flag, expected) in [(true, "1"), (false, "0")] {
        let c = bed
            .bundle()
            .set("/process/noNewPrivileges", json!(flag))
            .sh("grep NoNewPrivs /proc/self/status | cut -f2")
            .make();
        assert_eq!(c.run().ok().stdout.trim(), expected);
    }
}

fn setuid_with_no_new_privileges(bed: &Bed) {
    use std::os::unix::fs::PermissionsExt;
    // busybox drops root at once. A process that has gained root by a setuid program can't read its own files in /proc
    // afterwards.
    let run = |flag: bool| {
        let bundle = bed.bundle();
        let program = bundle.rootfs().join("su/cat");
        fs::create_dir(bundle.rootfs().join("su")).expect("make");
        program::copy(Path::new("/bin/busybox"), &program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("chmod");
        let c = bundle
            .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
            .set("/process/noNewPrivileges", json!(flag))
            .args(&["/su/cat", "/proc/self/environ"])
            .make();
        c.run()
    };
    let _ = run(true).ok();
    let gained = run(false).exits(1);
    assert!(gained.stderr.contains("Permission denied"), "{gained}");
}

fn oom_score_adj(bed: &Bed) {
    for value in [0, 77, 1000] {
        let c = bed
            .bundle()
            .set("/process/oomScoreAdj", json!(value))
            .sh("cat /proc/self/oom_score_adj")
            .make();
        assert_eq!(c.run().ok().stdout.trim(), value.to_string());
    }
}

fn oom_score_adj_untouched(bed: &Bed) {
    let own = fs::read_to_string("/proc/self/oom_score_adj").expect("own");
    assert_eq!(bed.bundle().sh("cat /proc/self/oom_score_adj").make().run().ok().stdout, own);
}

fn sysctl(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/linux/sysctl", json!({ "net.ipv4.ip_forward": "1", "kernel.shm_rmid_forced": "1", "fs.mqueue.msg_max": "16" }))
        .sh("cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shm_rmid_forced /proc/sys/fs/mqueue/msg_max")
        .make();
    assert_eq!(c.run().ok().stdout, "1\n1\n16\n");
}

fn sysctl_of_the_host_refused(bed: &Bed) {
    let refused = |name: &str, text: &str| {
        bed.bundle().set("/linux/sysctl", json!({ name: "1" })).make().create().fails(text);
    };
    refused("kernel.panic", "sysctl \"kernel.panic\" is not in a separate kernel namespace");
    refused("vm.swappiness", "is not in a separate kernel namespace");
    refused(
        "kernel.hostname",
        "sysctl \"kernel.hostname\" is not allowed as it conflicts with the OCI \"hostname\" field",
    );
    bed.bundle()
        .without_namespace("ipc")
        .set("/linux/sysctl", json!({ "kernel.shmmax": "1" }))
        .make()
        .create()
        .fails("sysctl \"kernel.shmmax\" is not allowed in the hosts ipc namespace");
}

fn session_keyring(bed: &Bed) {
    let c = bed.bundle().unset("/linux/maskedPaths").sh("cat /proc/keys").make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.contains(&format!("_ses.{}", c.id)), "{outcome}");
}

fn no_descriptors_leak(bed: &Bed) {
    // 3 is ls's own descriptor.
    assert_eq!(
        bed.bundle().args(&["/bin/ls", "/proc/self/fd"]).make().run().ok().stdout,
        "0\n1\n2\n3\n"
    );
}

fn init_has_no_parent(bed: &Bed) {
    let outcome = bed.bundle().args(&["/bin/grep", "PPid", "/proc/self/status"]).make().run().ok();
    assert_eq!(outcome.stdout, "PPid:\t0\n");
}

fn session_and_group(bed: &Bed) {
    let outcome =
        bed.bundle().args(&["/bin/cut", "-d", " ", "-f5,6", "/proc/self/stat"]).make().run().ok();
    assert_eq!(outcome.stdout, "1 1\n", "leader of its session and group");
}

fn annotations_do_not_matter(bed: &Bed) {
    bed.bundle()
        .set("/annotations", json!({ "io.kubernetes.cri.container-type": "sandbox", "run.oci.keep_original_groups": "0" }))
        .args(&["/bin/true"])
        .make()
        .run()
        .ok();
}

fn signal_dispositions_are_default(bed: &Bed) {
    let outcome = bed
        .bundle()
        .args(&["/bin/grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"])
        .make()
        .run()
        .ok();
    assert!(outcome.stdout.starts_with("SigBlk:\t0000000000000000\n"), "{outcome}");
    assert!(outcome.stdout.ends_with("SigCgt:\t0000000000000000\n"), "{outcome}");
    // The program ignores only signals that the caller ignores. Signals 32 and 33 are an exception: libc reserves them.
    // libc's spawn ignores both, and some runtimes pass this on to the program.
    let ignored = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("SigIgn")).expect("line");
        u64::from_str_radix(line.trim_start_matches("SigIgn:\t"), 16).expect("hex")
    };
    let own = fs::read_to_string("/proc/self/status").expect("status");
    assert_eq!(ignored(&outcome.stdout) & !ignored(&own) & !(0b11 << 31), 0, "{outcome}");
}

fn terminal_false_means_pipes(bed: &Bed) {
    let outcome = bed.bundle().sh("tty; test -t 1 || echo no terminal").make().run();
    assert!(
        outcome.stdout.contains("not a tty") && outcome.stdout.contains("no terminal"),
        "{outcome}"
    );
}

/// The network namespace that a path names may turn out to be the host's.
fn sysctl_of_a_joined_namespace(bed: &Bed) {
    let name = "net/core/somaxconn";
    // The written value is the present one, so that the host would not change if the write succeeded.
    let value = std::fs::read_to_string(format!("/proc/sys/{name}")).expect("sysctl");
    let refused = "not allowed in host network namespace";
    let join = |path: &str, value: &str| {
        bed.bundle()
            .join_namespace("network", path)
            .set("/linux/sysctl", json!({ "net.core.somaxconn": value }))
            .sh("cat /proc/sys/net/core/somaxconn")
            .make()
    };
    join("/proc/self/ns/net", value.trim()).run().fails(refused);
    let other = bed.bundle().make().detached();
    let path = format!("/proc/{}/ns/net", other.pid());
    assert_eq!(join(&path, "77").run().ok().stdout, "77\n");
}

fn sysctl_of_the_hosts_ipc_namespace(bed: &Bed) {
    let value = std::fs::read_to_string("/proc/sys/kernel/shmmni").expect("sysctl");
    bed.bundle()
        .join_namespace("ipc", "/proc/self/ns/ipc")
        .set("/linux/sysctl", json!({ "kernel.shmmni": value.trim() }))
        .make()
        .run()
        .fails("is not allowed in the hosts ipc namespace");
}

/// According to config.md, capabilities that cannot be granted MUST be logged as a warning.
fn capabilities_that_cannot_be_granted(bed: &Bed) {
    let names = json!(["CAP_KILL", "CAP_NEVER", "cap_kill"]);
    let c = bed
        .bundle()
        .set(
            "/process/capabilities",
            json!({ "bounding": names, "effective": names, "permitted": names, "ambient": ["CAP_KILL"] }),
        )
        .args(&["/bin/true"])
        .make();
    let outcome = c.run().ok();
    for text in [
        r#""level":"warning""#,
        "ignoring unknown or unavailable capabilities: [CAP_NEVER cap_kill]",
        "can't raise ambient capability CAP_KILL: operation not permitted",
    ] {
        assert!(outcome.log().contains(text), "{text}: {outcome}");
    }
}
