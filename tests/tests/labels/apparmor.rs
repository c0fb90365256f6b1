//! AppArmor profiles.

use super::{CURRENT, current, exec_process};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{User, can_be};
use dayfly_tests::wait;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(profile).needs(profiles),
    case!(refuses).needs(profiles),
    case!(with_everything_that_restricts).needs(profiles),
    case!(exec_has_the_containers_profile).needs(profiles),
    case!(process_file_has_the_containers_profile).needs(profiles).unlike_runc(),
    case!(exec_has_its_own_profile).needs(profiles),
    case!(unknown_profile).needs(profiles),
    case!(unknown_profile_for_exec).needs(profiles),
    case!(in_a_user_namespace).needs(profiles),
    case!(of_a_user).needs(profiles_and_users),
    case!(hooks_of_the_container).needs(profiles),
    case!(features).needs(profiles),
];

/// A profile that allows everything, with the name that linux_process_apparmor_profile of runtime-tools uses.
const SECURE: &str = "acme_secure_profile";
/// A profile that denies writing /refused, and chown(2).
pub const CONFINED: &str = "dayfly-confined";
/// A profile that denies writing /other.
const OTHER: &str = "dayfly-other";
const UNKNOWN: &str = "dayfly-no-such-profile";

/// Checks that the profiles of tests/labels are loaded.
pub fn profiles() -> Result<(), String> {
    match fs::read_to_string("/sys/kernel/security/apparmor/profiles") {
        Ok(loaded) if loaded.contains("dayfly-confined (enforce)") => Ok(()),
        _ => Err("no AppArmor with profiles of tests/labels: scripts/bed guest-labels".to_owned()),
    }
}

fn profiles_and_users() -> Result<(), String> {
    profiles()?;
    can_be()
}

fn enforced(profile: &str) -> String {
    format!("{profile} (enforce)")
}

fn profile(bed: &Bed) {
    let c = bed.bundle().set("/process/apparmorProfile", json!(SECURE)).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("running");
    assert_eq!(current(c.pid()), enforced(SECURE));
    let own = "cat /proc/self/attr/current /proc/self/attr/apparmor/current";
    let run = bed.bundle().set("/process/apparmorProfile", json!(SECURE)).sh(own).make().run().ok();
    assert_eq!(run.lines(), [enforced(SECURE), enforced(SECURE)]);
}

/// Tries three writes and a chown(2), which root may do unless a profile denies them.
const TRY: &str = "echo x >/allowed; echo $?; echo x >/refused; echo $?; echo x >/other; echo $?; \
                   chown 1:1 /allowed; echo $?";

fn refuses(bed: &Bed) {
    let tried = |profile: Value| {
        let run = bed.bundle().set("/process/apparmorProfile", profile).sh(TRY).make().run();
        run.ok().lines().join(" ")
    };
    assert_eq!(tried(json!("unconfined")), "0 0 0 0");
    assert_eq!(tried(json!(SECURE)), "0 0 0 0");
    assert_eq!(tried(json!(CONFINED)), "0 1 0 1");
    assert_eq!(tried(json!(OTHER)), "0 0 1 0");
}

/// The profile also applies to a process of another user, with no_new_privs and a seccomp filter.
fn with_everything_that_restricts(bed: &Bed) {
    let run = bed
        .bundle()
        .set("/process/apparmorProfile", json!(CONFINED))
        .set("/process/noNewPrivileges", json!(true))
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" }))
        .set("/root/readonly", json!(true))
        .sh(&format!("{CURRENT}; grep NoNewPrivs /proc/self/status; id -u"))
        .make()
        .run()
        .ok();
    assert_eq!(run.lines(), [&enforced(CONFINED), "NoNewPrivs:\t1", "1000"]);
}

fn exec_has_the_containers_profile(bed: &Bed) {
    let c = bed.bundle().set("/process/apparmorProfile", json!(CONFINED)).make().detached();
    let exec = c.sh(&format!("{CURRENT}; {TRY}")).ok();
    assert_eq!(exec.lines(), [&enforced(CONFINED), "0", "1", "0", "1"]);
    // The same is tested for a detached process.
    let file = bed.dir.join("pid").to_string_lossy().into_owned();
    c.exec_with(&["--detach", "--pid-file", &file], &["sleep", "1000"]).ok();
    let pid = fs::read_to_string(&file).expect("read pid").trim().parse().expect("pid");
    assert_eq!(current(pid), enforced(CONFINED));
}

/// If a process.json names no profile, the process gets the container's. runc does the same for SELinux labels, and
/// intends to do so for AppArmor. But runc's package specconv does not copy the profile to the configuration that runc
/// stores, so with runc the process is unconfined.
fn process_file_has_the_containers_profile(bed: &Bed) {
    let c = bed.bundle().set("/process/apparmorProfile", json!(CONFINED)).make().detached();
    let process = json!({ "args": ["/bin/sh", "-c", CURRENT], "cwd": "/", "user": {} });
    assert_eq!(exec_process(bed, &c, &process).run().ok().lines(), [enforced(CONFINED)]);
}

fn exec_has_its_own_profile(bed: &Bed) {
    let c = bed.bundle().set("/process/apparmorProfile", json!(CONFINED)).make().detached();
    let show = ["/bin/sh", "-c", &format!("{CURRENT}; {TRY}")];
    let exec = c.exec_with(&["--apparmor", OTHER], &show).ok();
    assert_eq!(exec.lines(), [&enforced(OTHER), "0", "0", "1", "0"]);
    let exec = c.exec_with(&["--no-new-privs", "--apparmor", OTHER], &show).ok();
    assert_eq!(exec.lines()[0], enforced(OTHER));
    let exec = c.exec_with(&["--apparmor", "unconfined"], &show).ok();
    assert_eq!(exec.lines(), ["unconfined", "0", "0", "0", "0"]);
    let process = json!({ "args": show, "cwd": "/", "user": {}, "apparmorProfile": OTHER });
    assert_eq!(exec_process(bed, &c, &process).run().ok().lines()[0], enforced(OTHER));
    assert_eq!(current(c.pid()), enforced(CONFINED));
}

const NO_PROFILE: &str = "apparmor failed to apply profile";

fn unknown_profile(bed: &Bed) {
    let c = bed.bundle().set("/process/apparmorProfile", json!(UNKNOWN)).make();
    for outcome in [c.create(), c.run()] {
        let outcome = outcome.fails(NO_PROFILE);
        assert!(outcome.stderr.contains("no such file or directory"), "{outcome}");
        c.assert_gone("an unknown profile");
    }
}

fn unknown_profile_for_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let processes = || c.sh("ls -d /proc/[0-9]*").ok().lines().len();
    let before = processes();
    c.exec_with(&["--apparmor", UNKNOWN], &["true"]).fails_as(255, NO_PROFILE);
    let process = json!({ "args": ["true"], "cwd": "/", "user": {}, "apparmorProfile": UNKNOWN });
    exec_process(bed, &c, &process).run().fails_as(255, NO_PROFILE);
    assert_eq!((c.status().as_str(), processes()), ("running", before));
}

fn in_a_user_namespace(bed: &Bed) {
    let c = crate::userns::mapped(bed).set("/process/apparmorProfile", json!(CONFINED));
    let c = c.make().detached();
    assert_eq!(current(c.pid()), enforced(CONFINED));
    let exec = c.sh(&format!("{CURRENT}; {TRY}")).ok();
    assert_eq!(exec.lines(), [&enforced(CONFINED), "0", "1", "0", "1"]);
    let exec = c.exec_with(&["--apparmor", OTHER], &["/bin/sh", "-c", CURRENT]).ok();
    assert_eq!(exec.lines(), [enforced(OTHER)]);
}

fn of_a_user(bed: &Bed) {
    let user = User::new(bed);
    let c = user.ranges().set("/process/apparmorProfile", json!(CONFINED)).make().detached();
    assert_eq!(current(c.pid()), enforced(CONFINED));
    assert_eq!(
        c.sh(&format!("{CURRENT}; {TRY}")).ok().lines()[..3],
        [&enforced(CONFINED), "0", "1"]
    );
    let c = user.ranges().set("/process/apparmorProfile", json!(UNKNOWN)).make();
    c.create().fails(NO_PROFILE);
    assert!(!c.exists());
}

/// Hooks that run in the container just before its program have the program's profile; earlier hooks have no profile.
fn hooks_of_the_container(bed: &Bed) {
    let hook = |file: &str| {
        let write = format!("cat /proc/self/attr/current >{file}");
        json!([{ "path": "/bin/sh", "args": ["sh", "-c", write] }])
    };
    let outside = bed.dir.join("outside").to_string_lossy().into_owned();
    let c = bed
        .bundle()
        .set("/process/apparmorProfile", json!(SECURE))
        .set("/hooks/createRuntime", hook(&outside))
        .set("/hooks/startContainer", hook("/inside"))
        .make()
        .detached();
    assert_eq!(fs::read_to_string(outside).expect("outside"), "unconfined\n");
    let inside = wait::until("what the hook writes", || {
        fs::read_to_string(c.bundle.join("rootfs/inside")).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(inside, format!("{}\n", enforced(SECURE)));
}

fn features(bed: &Bed) {
    let features: Value =
        serde_json::from_str(&bed.call(&["features"]).run().ok().stdout).expect("features");
    assert_eq!(features["linux"]["apparmor"]["enabled"], json!(true));
}
