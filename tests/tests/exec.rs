//! `exec`: a second process in a running container.

use dayfly_tests::bed::Bed;
use dayfly_tests::console::FdSocket;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, wait};
use serde_json::json;
use std::fs;
use std::path::Path;

pub mod cgroup;
pub mod streams;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(output_and_exit_code),
    case!(killed_by_signal_is_128_and_n),
    case!(sees_the_container),
    case!(joins_every_namespace),
    case!(missing_program),
    case!(no_command),
    case!(in_a_created_container),
    case!(in_a_stopped_container),
    case!(cwd),
    case!(cwd_missing_is_an_error),
    case!(env),
    case!(user),
    case!(user_malformed),
    case!(additional_gids),
    case!(capabilities_are_those_of_the_container),
    case!(cap_added),
    case!(cap_added_where_some_are_inheritable),
    case!(no_new_privs),
    case!(process_file),
    case!(process_file_broken),
    case!(process_file_has_its_own_defaults),
    case!(detach_and_pid_file),
    case!(flags_end_at_the_id),
    case!(pidfd_socket),
    case!(many_in_a_row),
    case!(at_the_same_time),
    case!(rlimits_umask_oom_of_the_container),
    case!(lines_of_the_pid_namespace),
    case!(home_of_the_user),
    case!(env_later_wins),
    case!(in_a_paused_container),
    case!(ignore_paused),
    case!(pidfd_socket_missing),
];

fn output_and_exit_code(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = c.sh("echo out; echo err >&2; exit 9").exits(9);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    c.exec(&["true"]).ok();
    c.exec(&["false"]).exits(1);
}

fn killed_by_signal_is_128_and_n(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.sh("kill -KILL $$").exits(137);
    c.sh("kill -TERM $$").exits(143);
}

fn sees_the_container(bed: &Bed) {
    let bundle = bed.bundle();
    fs::write(bundle.rootfs().join("mark"), "inside\n").expect("write mark");
    let c = bundle.make().detached();
    assert_eq!(c.exec(&["cat", "/mark"]).ok().stdout, "inside\n");
    assert_eq!(c.exec(&["hostname"]).ok().stdout, "dayfly-test\n");
}

fn joins_every_namespace(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let script = "for n in cgroup ipc mnt net pid uts; do readlink /proc/$0/ns/$n; done";
    let init = c.exec(&["sh", "-c", script, "1"]).ok().stdout;
    let own = c.exec(&["sh", "-c", script, "self"]).ok().stdout;
    assert_eq!(init, own);
}

fn missing_program(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec(&["/no/such"]).fails_as(255, "no such file or directory");
    for name in ["nothing-here", ""] {
        c.exec(&[name]).fails_as(255, "executable file not found in $PATH");
    }
    c.exec(&["/etc/passwd"]).fails_as(255, "permission denied");
    assert_eq!(c.status(), "running");
}

fn no_command(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec(&[]).fails_as(255, "exec args cannot be empty");
}

fn in_a_created_container(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    assert_eq!(c.sh("echo early").ok().stdout, "early\n");
    c.start().ok();
}

fn in_a_stopped_container(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.exec(&["true"]).fails_as(255, "cannot exec in a stopped container");
}

fn in_a_paused_container(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    c.exec(&["true"])
        .fails_as(255, "cannot exec in a paused container (use --ignore-paused to override)");
    c.id_call("resume", &[], &[]).run().ok();
    c.exec(&["true"]).ok();
}

/// The new process exists, but stays frozen like all others until the container is resumed.
fn ignore_paused(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    let running = c.id_call("exec", &["--ignore-paused"], &["echo", "thawed"]).spawn();
    wait::until_true("a second process in the frozen cgroup", || {
        c.cgroup_read("freezer", "cgroup.procs").lines().count() == 2
    });
    assert_eq!(running.stdout(), "");
    assert_eq!(c.status(), "paused");
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(running.wait().ok().stdout, "thawed\n");
}

fn cwd(bed: &Bed) {
    let c = bed.bundle().set("/process/cwd", json!("/tmp")).make().detached();
    assert_eq!(c.exec(&["pwd"]).ok().stdout, "/tmp\n");
    assert_eq!(c.exec_with(&["--cwd", "/etc"], &["pwd"]).ok().stdout, "/etc\n");
}

fn cwd_missing_is_an_error(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec_with(&["--cwd", "/not/here"], &["pwd"]).fails_as(255, "no such file or directory");
    c.exec_with(&["--cwd", "relative"], &["pwd"]).fails_as(255, "Cwd must be an absolute path");
}

fn env(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = c.exec_with(&["--env", "ONE=1", "--env", "TWO=a b=c"], &["env"]).ok();
    assert!(outcome.lines().contains(&"ONE=1"));
    assert!(outcome.lines().contains(&"TWO=a b=c"));
    assert!(outcome.lines().contains(&"container=podman"), "the container's own variables stay");
}

fn env_later_wins(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = c.exec_with(&["-e", "TERM=dumb"], &["env"]).ok();
    let terms: Vec<_> =
        outcome.lines().into_iter().filter(|line| line.starts_with("TERM=")).collect();
    assert_eq!(terms, ["TERM=dumb"]);
}

fn user(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let script = "id -u; id -g";
    let as_user = |user: &str| c.exec_with(&["--user", user], &["sh", "-c", script]).ok().stdout;
    assert_eq!(as_user("1000:1000"), "1000\n1000\n");
    assert_eq!(as_user("1000"), "1000\n0\n");
    assert_eq!(as_user("0:5"), "0\n5\n");
    assert_eq!(as_user("4242:4343"), "4242\n4343\n");
}

fn user_malformed(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for (user, text) in
        [("one", "bad uid"), ("1:x", "bad gid"), ("1 ", "bad uid"), ("0x1", "bad uid")]
    {
        c.exec_with(&["--user", user], &["id"]).fails_as(255, text);
    }
}

fn additional_gids(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = c
        .exec_with(
            &["-u", "1000:1000", "--additional-gids", "2000", "--additional-gids", "3000"],
            &["id", "-G"],
        )
        .ok();
    assert_eq!(outcome.stdout, "1000 2000 3000\n");
}

/// Prints the five capability sets of a process, in the order of /proc/PID/status.
const SETS: &str = "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status";

fn capabilities_are_those_of_the_container(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let own = c.sh(SETS).ok().stdout;
    let init = c.exec(&["grep", "-E", "^Cap(Inh|Prm|Eff|Bnd|Amb)", "/proc/1/status"]).ok().stdout;
    assert_eq!(own, init);
    assert!(own.starts_with("CapInh:\t0000000000000000\n"), "CVE-2022-29162: {own}");
}

/// A capability added by --cap becomes ambient if the configuration lists it as inheritable, as with runc. Any other
/// added capability becomes neither ambient nor inheritable.
fn cap_added_where_some_are_inheritable(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .set(
            "/process/capabilities",
            json!({
                "bounding": ["CAP_CHOWN", "CAP_NET_RAW"], "inheritable": ["CAP_CHOWN"],
            }),
        )
        .make()
        .detached();
    let sets = |cap: &str| {
        let outcome = c.exec_with(&["--cap", cap], &["sh", "-c", SETS]).ok();
        let hex = |line: &&str| {
            line.split('\t').next_back().map(|hex| hex.trim_start_matches('0').to_owned())
        };
        (outcome.lines().iter().filter_map(hex).collect::<Vec<_>>(), outcome)
    };
    let words = |list: [&str; 5]| list.map(str::to_owned).to_vec();
    // The order of the sets is: inheritable, permitted, effective, bounding, ambient.
    let (chown, outcome) = sets("CAP_CHOWN");
    assert_eq!(chown, words(["1", "1", "1", "2001", "1"]), "{outcome}");
    let (raw, outcome) = sets("CAP_NET_RAW");
    assert_eq!(raw, words(["1", "", "", "2001", ""]), "{outcome}");
    assert!(outcome.log().contains("can't raise ambient capability CAP_NET_RAW"), "{outcome}");
}

fn cap_added(bed: &Bed) {
    let c = bed.bundle().make().detached();
    // An unknown capability causes a warning, and is added to no set.
    let outcome = c.exec_with(&["--cap", "CAP_NOPE"], &["sh", "-c", SETS]).ok();
    assert_eq!(outcome.stdout, c.sh(SETS).ok().stdout);
    assert!(outcome.log().contains("unavailable capabilities: [CAP_NOPE]"), "{outcome}");
    let outcome = c.exec_with(&["--cap", "CAP_SYS_TIME"], &["sh", "-c", SETS]).ok();
    // Bit 25, in the permitted, effective and bounding sets only.
    let bit = |name: &str| {
        let line = outcome
            .lines()
            .into_iter()
            .find(|line| line.starts_with(name))
            .expect("set")
            .to_owned();
        let value =
            u64::from_str_radix(line.split('\t').next_back().expect("value"), 16).expect("hex");
        value >> 25 & 1
    };
    assert_eq!(
        [bit("CapInh"), bit("CapPrm"), bit("CapEff"), bit("CapBnd"), bit("CapAmb")],
        [0, 1, 1, 1, 0]
    );
}

fn no_new_privs(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let line = ["grep", "NoNewPrivs", "/proc/self/status"];
    assert_eq!(c.exec(&line).ok().stdout, "NoNewPrivs:\t0\n");
    assert_eq!(c.exec_with(&["--no-new-privs"], &line).ok().stdout, "NoNewPrivs:\t1\n");
}

fn write_process(bed: &Bed, process: &serde_json::Value) -> String {
    let path = bed.dir.join("process.json");
    fs::write(&path, process.to_string()).expect("write process");
    path.to_string_lossy().into_owned()
}

fn process_file(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let path = write_process(
        bed,
        &json!({
            "user": { "uid": 1000, "gid": 1000, "additionalGids": [2000] },
            "args": ["/bin/sh", "-c", "id -u; id -G; pwd; echo $COLOUR; umask; ulimit -n"],
            "env": ["PATH=/bin", "COLOUR=green"],
            "cwd": "/tmp",
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 512, "soft": 256 }],
        }),
    );
    let outcome = c.id_call("exec", &["--process", &path], &[]).run().ok();
    let lines = outcome.lines();
    assert_eq!(lines[..4], ["1000", "1000 2000", "/tmp", "green"]);
    assert_eq!(lines[5], "256");
}

fn process_file_broken(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let exec = |process: &serde_json::Value| {
        let path = write_process(bed, process);
        c.id_call("exec", &["--process", &path], &[]).run()
    };
    exec(&json!({ "args": ["true"] })).fails_as(255, "Cwd property must not be empty");
    exec(&json!({ "args": [], "cwd": "/" })).fails_as(255, "args must not be empty");
    exec(&json!({ "args": ["true"], "cwd": "tmp" })).fails_as(255, "Cwd must be an absolute path");
    c.id_call("exec", &["--process", "/no/such/file"], &[])
        .run()
        .fails_as(255, "no such file or directory");
}

fn process_file_has_its_own_defaults(bed: &Bed) {
    // If process.json contains no capabilities, the process has the container's.
    let c = bed.bundle().make().detached();
    let path = write_process(
        bed,
        &json!({
            "user": { "uid": 0, "gid": 0 }, "args": ["/bin/sh", "-c", SETS], "env": ["PATH=/bin"], "cwd": "/",
        }),
    );
    let outcome = c.id_call("exec", &["--process", &path], &[]).run().ok();
    assert_eq!(outcome.stdout, c.sh(SETS).ok().stdout);
}

fn detach_and_pid_file(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let file = bed.dir.join("exec.pid");
    let outcome = c
        .exec_with(&["--detach", "--pid-file", file.to_str().expect("path")], &["sleep", "1001"])
        .ok();
    assert_eq!(outcome.stdout, "");
    let pid = fs::read_to_string(&file).expect("pid file");
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("the process runs");
    assert_eq!(command, "sleep\x001001\0");
}

fn flags_end_at_the_id(bed: &Bed) {
    // Arguments after the id belong to the command, even if they look like flags.
    let c = bed.bundle().make().detached();
    assert_eq!(c.exec(&["echo", "--user", "-d", "-t"]).ok().stdout, "--user -d -t\n");
    assert_eq!(c.exec(&["sh", "-c", "echo $0 $1", "--cwd", "/x"]).ok().stdout, "--cwd /x\n");
}

fn pidfd_socket(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let socket = FdSocket::new(&bed.dir, "pidfd.sock");
    let file = bed.dir.join("pid");
    let flags =
        ["--detach", "--pidfd-socket", &socket.arg(), "--pid-file", file.to_str().expect("path")];
    c.exec_with(&flags, &["sleep", "1000"]).ok();
    let (pidfd, kind) = socket.receive();
    assert_eq!(kind, "setns");
    let info = fs::read_to_string(format!(
        "/proc/self/fdinfo/{}",
        std::os::fd::AsRawFd::as_raw_fd(&pidfd)
    ));
    let pid = fs::read_to_string(file).expect("pid file");
    assert!(info.expect("fdinfo").lines().any(|line| line == format!("Pid:\t{pid}")));
}

fn pidfd_socket_missing(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let processes = || c.sh("ls -d /proc/[0-9]*").ok().lines().len();
    let before = processes();
    c.exec_with(&["--pidfd-socket", "/no/such/socket"], &["true"])
        .fails_as(255, "no such file or directory");
    assert_eq!(processes(), before);
}

fn many_in_a_row(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for round in 0..10 {
        let text = round.to_string();
        assert_eq!(c.exec(&["echo", &text]).ok().stdout.trim(), text);
    }
}

fn at_the_same_time(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let running: Vec<_> = (0..10)
        .map(|n| (n, c.id_call("exec", &[], &["sh", "-c", &format!("exit {n}")]).spawn()))
        .collect();
    for (n, running) in running {
        let _ = running.wait().exits(n);
    }
}

fn rlimits_umask_oom_of_the_container(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/rlimits", json!([{ "type": "RLIMIT_NOFILE", "hard": 600, "soft": 300 }]))
        .set("/process/oomScoreAdj", json!(500))
        .set("/process/user/umask", json!(0o77))
        .make()
        .detached();
    let outcome = c.sh("ulimit -Sn; ulimit -Hn; cat /proc/self/oom_score_adj; umask").ok();
    assert_eq!(outcome.lines(), ["300", "600", "500", "0077"]);
}

fn lines_of_the_pid_namespace(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = c.sh("echo $$; cat /proc/1/cmdline | tr '\\0' ' '").ok();
    assert!(outcome.lines()[0].parse::<i32>().expect("pid") > 1);
    assert_eq!(outcome.lines()[1], "/bin/sleep 1000 ");
}

fn home_of_the_user(bed: &Bed) {
    let c = bed.bundle().set("/process/env", json!(["PATH=/bin"])).make().detached();
    assert_eq!(c.exec_with(&["-u", "1000"], &["sh", "-c", "echo $HOME"]).ok().stdout, "/home\n");
    assert_eq!(c.exec(&["sh", "-c", "echo $HOME"]).ok().stdout, "/root\n");
    assert_eq!(c.exec_with(&["-u", "777"], &["sh", "-c", "echo $HOME"]).ok().stdout, "/\n");
    assert!(Path::new("/proc/self").exists());
}
