//! The properties that a container inherits from the process that makes it. They are the same under the shim as under
//! `dayfly run`, except the shim's OOM score, which equals that of containerd's own shim.

use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::Pipes;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(first_process).unlike_runc(),
    case!(exec).unlike_runc(),
    case!(user_and_time_namespaces).unlike_runc(),
];

/// Prints the properties of a process: signals, limits, umask, credentials, groups, session, PID namespaces,
/// descriptors and more.
const SCRIPT: &str = "grep -E '^(Umask|NSpid|NSpgid|NSsid|Sig[PBIC]|Shd|Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups|\
    TracerPid|CoreDumping|Cpus_allowed|Mems_allowed|Speculation)' /proc/self/status; cat /proc/self/limits; \
    echo stat $(cut -d ' ' -f 7-8,18,19,38,41 /proc/self/stat); \
    echo personality $(cat /proc/self/personality) filter $(cat /proc/self/coredump_filter); \
    echo cwd $(readlink /proc/self/cwd) descriptors $(ls /proc/self/fd) keys $(grep -c _ses /proc/keys); \
    echo oom $(cat /proc/self/oom_score_adj); echo slack $(cat /proc/self/timerslack_ns); env";

fn bundle(bed: &Bed) -> Bundle<'_> {
    // Unless the configuration sets these properties, the container inherits them.
    bed.bundle().unset("/process/rlimits").unset("/process/oomScoreAdj")
}

fn lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}

/// Asserts that both texts have the same lines, not counting lines that begin with `but`.
#[track_caller]
fn assert_same(ours: &[u8], wanted: &str, but: Option<&str>) {
    let (ours, wanted) = (lines(ours), lines(wanted.as_bytes()));
    let is_compared = |line: &&String| but.is_none_or(|but| !line.starts_with(but));
    let beyond = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(is_compared).filter(|line| !those.contains(line)).cloned().collect()
    };
    assert!(wanted.iter().any(|line| line.starts_with("NSpgid")), "{wanted:?}");
    assert_eq!(beyond(&ours, &wanted), beyond(&wanted, &ours));
    assert_eq!(ours.len(), wanted.len());
}

fn first_process(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let wanted = bundle(bed).sh(SCRIPT).make().run().ok().stdout;
    let container = bundle(bed).sh(SCRIPT).make();
    let pipes = Pipes::new(&container, "init");
    let out = pipes.reader("stdout");
    let task = Task::started(container, Some(&pipes));
    assert_eq!(task.wait(""), 0);
    assert_same(&out.join().expect("stdout"), &wanted.replace("oom 0", "oom 1"), None);
    task.finish();
}

fn exec(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bundle(bed).args(&["sleep", "1000"]).make(), None);
    let script = format!("{}; true", SCRIPT.replace("; env", ""));
    let id = task.id();
    let wanted = task.shim.dayfly(&["exec", &id, "/bin/sh", "-c", &script]).run().ok().stdout;
    let pipes = Pipes::new(&task.container, "exec");
    let out = pipes.reader("stdout");
    task.exec("e", &script, Some(&pipes));
    task.start("e");
    assert_eq!(task.wait("e"), 0);
    // Process ids are not compared: those of the exec and of its children differ.
    assert_same(&out.join().expect("stdout"), &wanted.replace("oom 0", "oom 1"), Some("NS"));
    task.finish();
}

/// The shim is not dumpable (`PR_SET_DUMPABLE`), so its /proc/self belongs to the host's root.
fn user_and_time_namespaces(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]);
    let make = || {
        let script = "read up rest </proc/uptime; test ${up%.*} -ge 1000000 && cat /proc/self/uid_map \
                      && echo 7 >/proc/self/oom_score_adj";
        let bundle = bed.bundle().sh(script).push("/linux/namespaces", json!({ "type": "user" }));
        let offsets = json!({ "boottime": { "secs": 1_000_000 } });
        bundle
            .push("/linux/namespaces", json!({ "type": "time" }))
            .set("/linux/timeOffsets", offsets)
            .set("/linux/uidMappings", map.clone())
            .set("/linux/gidMappings", map.clone())
            .make()
    };
    let wanted = make().run().ok().stdout;
    assert!(wanted.contains("100000"), "{wanted}");
    let container = make();
    let pipes = Pipes::new(&container, "init");
    let out = pipes.reader("stdout");
    let task = Task::started(container, Some(&pipes));
    assert_eq!(task.wait(""), 0);
    assert_eq!(String::from_utf8_lossy(&out.join().expect("stdout")), wanted);
    task.finish();
}
