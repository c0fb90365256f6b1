//! Attacks on the host through descriptors and the runtime's own executable.

use super::pause::{paused as stopped, run_paused};
use super::{Evidence, attacks};
use crate::security::copy_of_runtime;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = attacks! {
    runtime_is_overwritten without "seal",
    cwd_of_the_host without "cwd-check,resolve-in-root",
    exec_cwd_of_the_host without "cwd-check,bare-birth",
    newborn_of_exec without "bare-birth" paused,
    newborn_of_a_pod without "bare-birth" paused with_blank,
    inherited_directory without "close-range",
};

/// The container makes the runtime execute itself inside the container, and blocks it with a pipe that nobody reads.
/// The container opens the runtime's executable, and writes to that file after the runtime has exited.
fn runtime_is_overwritten(bed: &Bed) -> Evidence {
    let script = r#"
        busybox mkfifo /tmp/pipe
        echo ready
        for round in $(seq 1000); do for p in /proc/[0-9]*; do
            case $(tr '\0' ' ' <$p/cmdline) in '/proc/self/exe '*) ;; *) continue ;; esac
            ( exec 9<$p/exe
              cat /tmp/pipe >/dev/null &
              # While the runtime runs anywhere, it cannot be written to.
              for try in $(seq 100); do
                  usleep 5000
                  echo overwritten >/proc/self/fd/9 && break
              done )
            cat /tmp/pipe >/dev/null &
            break 2
        done 2>/dev/null; usleep 1000; done
        echo done"#;
    let c = bed.bundle().sh(script).make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("ready");
    let (copy, bytes) = copy_of_runtime(bed);
    let root = bed.root();
    let args = [
        "--root",
        root.to_str().expect("path"),
        "exec",
        &c.id,
        "/proc/self/exe",
        "--log",
        "/tmp/pipe",
        "list",
    ];
    let _ = bed.program(copy.to_str().expect("path"), &args).run();
    run.wait_output("done");
    let now = fs::read(&copy).expect("read runtime");
    (now != bytes).then(|| format!("the runtime is now {} bytes long", now.len()))
}

/// Tries to reach a directory of the host from the working directory.
fn escape(bed: &Bed) -> String {
    let marker = bed.dir.to_string_lossy();
    format!("for up in . .. ../.. ../../../../../../..; do ls -d $up{marker} && echo ESCAPED; done")
}

fn cwd_of_the_host(bed: &Bed) -> Evidence {
    for number in 3..12 {
        for place in [format!("/proc/self/fd/{number}"), format!("/proc/self/fd/{number}/../..")] {
            let c = bed.bundle().set("/process/cwd", json!(place)).sh(&escape(bed)).make();
            let outcome = c.run();
            if outcome.stdout.contains("ESCAPED") {
                return Some(format!("{place} leads to the host: {}", outcome.stdout));
            }
        }
    }
    None
}

fn exec_cwd_of_the_host(bed: &Bed) -> Evidence {
    let bundle = bed.bundle();
    for number in 3..12 {
        let link = bundle.rootfs().join(format!("fd{number}"));
        symlink(format!("/proc/self/fd/{number}"), link).expect("link");
    }
    let c = bundle.make().detached();
    let places = ["/proc/self/fd/", "/fd"].map(|place| (3..12).map(move |n| format!("{place}{n}")));
    for place in places.into_iter().flatten().flat_map(|place| [format!("{place}/../.."), place]) {
        let outcome = c.exec_with(&["--cwd", &place], &["sh", "-c", &escape(bed)]);
        if outcome.stdout.contains("ESCAPED") {
            return Some(format!("{place} leads to the host: {}", outcome.stdout));
        }
    }
    None
}

/// The runtime's caller has an open descriptor of a host directory, which the container must not inherit.
fn inherited_directory(bed: &Bed) -> Evidence {
    let c = bed.bundle().sh(&format!("ls -d /proc/self/fd/7{}", bed.dir.display())).make();
    let script = "exec 7</; exec \"$@\"";
    let root = bed.root();
    let (root, bundle) = (root.to_string_lossy(), c.bundle.to_string_lossy());
    let runtime = bed.runtime().to_string_lossy();
    let call = [&*runtime, "--root", &root, "run", "--bundle", &bundle, &c.id];
    let args = [&["-c", script, "sh"][..], &call].concat();
    let outcome = bed.program("/bin/sh", &args).run();
    (outcome.code() == 0).then(|| format!("the host's root is open: {}", outcome.stdout))
}

/// Returns the bundle of a container with CAP_SYS_PTRACE and without a user namespace.
fn tracer(bed: &Bed) -> Bundle<'_> {
    ["bounding", "effective", "permitted"].iter().fold(bed.bundle(), |bundle, set| {
        bundle.push(&format!("/process/capabilities/{set}"), json!("CAP_SYS_PTRACE"))
    })
}

/// Returns the host files that a process of the container can reach through the descriptors, the root and the working
/// directory of a stopped dayfly process.
fn host_in_newborn(bed: &Bed, c: &Container<'_>) -> String {
    let marker = bed.dir.to_string_lossy();
    let script = format!(
        r#"
        seen=
        for p in /proc/[0-9]*; do
            set -- $(tr '\0' ' ' <$p/cmdline)
            [ "$2" = --root ] || continue
            seen=yes
            for l in $p/root $p/cwd $p/fd/*; do for up in . .. ../.. ../../../../../../../../..; do
                [ -e $l/$up{marker} ] && echo "$l/$up leads to the host"
            done; done
            for l in $p/fd/*; do case $(readlink $l) in */devices.list|*/cgroup.procs|*/tasks)
                echo "$l is of the host's cgroups"
            esac; done
        done
        [ "$seen" ]"#
    );
    c.sh(&script).ok().stdout
}

/// The process of an exec is stopped at its first step, so that the container can inspect what the process has
/// inherited.
fn newborn_of_exec(bed: &Bed) -> Evidence {
    let c = tracer(bed).make().detached();
    let mut seen = None;
    stopped(c.id_call("exec", &[], &["/bin/true"]), "new session", || {
        seen = Some(host_in_newborn(bed, &c));
    });
    Some(seen.expect("it never stopped")).filter(|seen| !seen.is_empty())
}

/// The init of a container that joins another container's PID namespace is stopped at its first step, so that the other
/// container can inspect what this init has inherited.
fn newborn_of_a_pod(bed: &Bed) -> Evidence {
    let first = tracer(bed).make().detached();
    let pid = format!("/proc/{}/ns/pid", first.pid());
    let c = bed.bundle().join_namespace("pid", &pid).args(&["/bin/true"]).make();
    let mut seen = None;
    run_paused(&c, "open own proc", || seen = Some(host_in_newborn(bed, &first)));
    Some(seen.expect("it never stopped")).filter(|seen| !seen.is_empty())
}
