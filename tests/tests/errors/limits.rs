//! Callers with low resource limits.

use super::caller::through;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(more_binds_than_the_callers_descriptors).unlike_runc(),
    case!(eleven_hundred_binds).unlike_runc(),
    case!(few_descriptors).unlike_runc(),
    case!(without_proc).unlike_runc(),
];

/// The limit of most shells and services is 1024 descriptors, with a higher hard limit.
const SOFT: &str = "--nofile=256:4096";
const SHOW: &str = "ulimit -Sn; ulimit -Hn";

/// Returns a bundle with this number of bind mounts of a file.
fn with_binds<'a>(bed: &Bed, mut bundle: Bundle<'a>, count: u32) -> Bundle<'a> {
    let file = bed.dir.join("file");
    fs::write(&file, "x\n").expect("write");
    for number in 0..count {
        let target = format!("/mnt/{number}");
        bundle = bundle.mount("bind", file.to_str().expect("path"), &target, &["bind"]);
    }
    bundle
}

/// Each bind mount is a descriptor until init attaches it (runc #5177, #5201). The soft limit is raised meanwhile.
/// Program, hooks and later processes have the caller's own.
fn more_binds_than_the_callers_descriptors(bed: &Bed) {
    let limited = ["prlimit", SOFT];
    let log = bed.dir.join("hooks");
    fs::set_permissions(&bed.dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    fs::write(&log, "").expect("write");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).expect("chmod");
    let script = format!("ulimit -Sn >>{}", log.display());
    let inside = json!([{ "path": "/bin/sh", "args": ["sh", "-c", "ulimit -Sn >>/tmp/inside"] }]);
    let outside = json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }]);
    for user in [false, true] {
        let bundle = if user { crate::userns::mapped(bed) } else { bed.bundle() };
        let mut bundle = with_binds(bed, bundle, 300).unset("/process/rlimits");
        // Root of a user namespace does not see the bed's directory.
        let kinds = ["prestart", "createRuntime", "poststart", "poststop", "createContainer"];
        let kinds = &kinds[..if user { 4 } else { 5 }];
        for kind in kinds {
            bundle = bundle.set(&format!("/hooks/{kind}"), outside.clone());
        }
        let show = format!("{SHOW}; cat /mnt/*[0-9] | wc -l; cat /tmp/inside");
        let c = bundle.set("/hooks/startContainer", inside.clone()).sh(&show).make();
        assert_eq!(through(&c, &limited, "run", &[]).run().ok().stdout, "256\n4096\n300\n256\n");
        assert_eq!(fs::read_to_string(&log).expect("hooks"), "256\n".repeat(kinds.len()));
        fs::write(&log, "").expect("write");
    }
    let limit = json!([{ "type": "RLIMIT_NOFILE", "soft": 30, "hard": 2000 }]);
    let c = with_binds(bed, bed.bundle(), 300).set("/process/rlimits", limit).sh(SHOW).make();
    assert_eq!(through(&c, &limited, "run", &[]).run().ok().stdout, "30\n2000\n");
    let c = with_binds(bed, bed.bundle(), 300).unset("/process/rlimits").make().detached();
    let exec = through(&c, &limited, "exec", &[&c.id, "sh", "-c", SHOW]);
    assert_eq!(exec.run().ok().stdout, "256\n4096\n");
}

/// The case of runc #5177: EMFILE at the 994th.
fn eleven_hundred_binds(bed: &Bed) {
    let c = with_binds(bed, bed.bundle(), 1100).unset("/process/rlimits").sh(SHOW).make();
    let outcome = through(&c, &["prlimit", "--nofile=1024:20000"], "run", &[]).run().ok();
    assert_eq!(outcome.stdout, "1024\n20000\n");
}

/// Below the hard limit, the error is one line, and nothing is left.
fn few_descriptors(bed: &Bed) {
    for limit in 1..40 {
        let c = bed.bundle().unset("/process/rlimits").args(&["/bin/true"]).make();
        let limit = format!("--nofile={limit}:{limit}");
        let outcome = through(&c, &["prlimit", &limit], "run", &[]).run();
        if outcome.code() != 0 {
            assert!(outcome.stderr.contains("too many open files"), "{limit}: {outcome}");
            assert_eq!((outcome.code(), outcome.stderr.lines().count()), (1, 1), "{outcome}");
        }
        c.assert_gone("run");
    }
}

/// A chroot without /proc.
fn without_proc(bed: &Bed) {
    let c = bed.bundle().make();
    let script = "mount -t tmpfs none /proc && exec \"$@\"";
    let hide = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"];
    let outcome = through(&c, &hide, "run", &[]).run().exits(1);
    assert!(outcome.stderr.contains("/proc"), "{outcome}");
    assert!(
        outcome.stderr.contains("is not mounted") || outcome.stderr.contains("procfs"),
        "{outcome}"
    );
}
