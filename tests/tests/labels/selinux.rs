//! SELinux labels of processes and keys.

use super::{CURRENT, current, exec_process};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::user::{User, can_be};
use serde_json::json;
use std::fs;
use std::path::Path;

dayfly_tests::subject!("labels::no_policy", Runtime, BEFORE);

/// Cases that run before the policy is loaded, since a loaded policy can't be removed.
const BEFORE: &[Case] = &[
    case!(process_label_without_a_policy).needs(no_policy),
    case!(mount_label_without_a_policy).needs(no_policy).unlike_runc(),
];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(process_label).needs(policy),
    case!(refuses).needs(policy),
    case!(categories_keep_apart).needs(policy),
    case!(with_everything_that_restricts).needs(policy),
    case!(exec_has_the_containers_label).needs(policy),
    case!(exec_has_its_own_label).needs(policy),
    case!(key_label).needs(policy),
    case!(wrong_process_label).needs(policy),
    case!(wrong_process_label_for_exec).needs(policy),
    case!(in_a_user_namespace).needs(policy),
    case!(of_a_user).needs(policy_and_users),
];

/// A label that does not permit writing files with the label [`REFUSED`].
pub const CONTAINER: &str = "system_u:system_r:container_t:s0:c1,c2";
/// A label that permits writing such files, with the categories of [`MOUNT`].
pub const OTHER: &str = "system_u:system_r:container_other_t:s0:c715,c811";
/// The mount label that linux_mount_label of runtime-tools uses.
pub const MOUNT: &str = "system_u:object_r:svirt_sandbox_file_t:s0:c715,c811";
/// A mount label with the categories of [`CONTAINER`].
pub const OWN: &str = "system_u:object_r:svirt_sandbox_file_t:s0:c1,c2";
const REFUSED: &str = "system_u:object_r:dayfly_refused_t:s0";
/// A label with a type that the policy does not define.
pub const WRONG: &str = "system_u:object_r:dayfly_no_such_t:s0";

/// Checks that the policy of tests/labels is loaded, and enforced.
pub fn policy() -> Result<(), String> {
    let enforced = fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|text| text == "1");
    match enforced && fs::write("/sys/fs/selinux/context", REFUSED).is_ok() {
        true => Ok(()),
        false => Err("no SELinux by tests/labels: scripts/bed guest-labels".to_owned()),
    }
}

fn policy_and_users() -> Result<(), String> {
    policy()?;
    can_be()
}

/// Checks that no policy is loaded. SELinux then takes every label for the label of the kernel.
fn no_policy() -> Result<(), String> {
    let own = fs::read_to_string("/proc/self/attr/current").unwrap_or_default();
    match Path::new("/sys/fs/selinux/load").exists() && own.trim_end_matches('\0') == "kernel" {
        true => Ok(()),
        false => Err("no SELinux that waits for a policy: scripts/bed guest-labels".to_owned()),
    }
}

const NO_SELINUX: &str =
    "selinux label is specified in config, but selinux is disabled or not supported";

fn process_label_without_a_policy(bed: &Bed) {
    let c = bed.bundle().set("/process/selinuxLabel", json!(CONTAINER)).make();
    c.create().fails(NO_SELINUX);
    c.assert_gone("a label without a policy");
    let c = bed.bundle().make().detached();
    c.exec_with(&["--process-label", CONTAINER], &["true"]).fails_as(255, NO_SELINUX);
}

fn mount_label_without_a_policy(bed: &Bed) {
    let c = bed.bundle().set("/linux/mountLabel", json!(MOUNT)).make();
    c.create().fails(NO_SELINUX);
    c.assert_gone("a label without a policy");
}

fn process_label(bed: &Bed) {
    let c = bed.bundle().set("/process/selinuxLabel", json!(CONTAINER)).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("running");
    assert_eq!(current(c.pid()), CONTAINER);
    let run = bed.bundle().set("/process/selinuxLabel", json!(CONTAINER)).sh(CURRENT).make();
    assert_eq!(shown(&run.run().ok()), [CONTAINER]);
}

/// Returns the lines of the output; the NUL after a label ends a line.
fn shown(outcome: &Outcome) -> Vec<String> {
    outcome.stdout.replace('\0', "\n").lines().map(str::to_owned).collect()
}

/// Adds a directory in which only a process with the label [`OTHER`] may write.
fn with_files(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle.mount("tmpfs", "tmpfs", "/mnt", &[&format!("context={REFUSED}")])
}

const TRY: &str = "echo x >/allowed; echo $?; echo x >/mnt/refused; echo $?";

fn refuses(bed: &Bed) {
    let tried = |label: &str| {
        let bundle = with_files(bed.bundle()).set("/process/selinuxLabel", json!(label));
        bundle.sh(TRY).make().run().ok().lines().join(" ")
    };
    assert_eq!(tried(CONTAINER), "0 1");
    assert_eq!(tried(OTHER), "0 0");
}

/// A program may not write to files with another container's mount label.
fn categories_keep_apart(bed: &Bed) {
    let tried = |process: &str, mount: &str| {
        let c = bed
            .bundle()
            .set("/process/selinuxLabel", json!(process))
            .set("/linux/mountLabel", json!(mount))
            .sh("echo x >/dev/shm/file && echo written")
            .make();
        let run = c.run();
        let refused = run.stderr.contains("/dev/shm/file: Permission denied");
        assert!(refused == (run.code() != 0), "{run}");
        run.stdout
    };
    assert_eq!(tried(CONTAINER, OWN), "written\n");
    assert_eq!(tried(CONTAINER, MOUNT), "");
    assert_eq!(tried(OTHER, MOUNT), "written\n");
}

/// The label also applies to a process of another user, with no_new_privs and a seccomp filter.
fn with_everything_that_restricts(bed: &Bed) {
    let run = bed
        .bundle()
        .set("/process/selinuxLabel", json!(CONTAINER))
        .set("/process/noNewPrivileges", json!(true))
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" }))
        .set("/root/readonly", json!(true))
        .sh(&format!("{CURRENT}; echo; grep NoNewPrivs /proc/self/status; id -u"))
        .make()
        .run()
        .ok();
    let shown = shown(&run);
    let words: Vec<&str> =
        shown.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    assert_eq!(words, [CONTAINER, "NoNewPrivs:\t1", "1000"]);
}

fn exec_has_the_containers_label(bed: &Bed) {
    let c = bed.bundle().set("/process/selinuxLabel", json!(CONTAINER)).make().detached();
    assert_eq!(shown(&c.sh(CURRENT).ok()), [CONTAINER]);
    // If a process.json has no label, the process gets the container's.
    let process = json!({ "args": ["/bin/sh", "-c", CURRENT], "cwd": "/", "user": {} });
    assert_eq!(shown(&exec_process(bed, &c, &process).run().ok()), [CONTAINER]);
}

fn exec_has_its_own_label(bed: &Bed) {
    let c = with_files(bed.bundle()).set("/process/selinuxLabel", json!(CONTAINER));
    let c = c.make().detached();
    assert_eq!(c.sh(TRY).ok().stdout, "0\n1\n");
    // A new file has the categories of the process that creates it.
    let show = ["/bin/sh", "-c", &format!("{CURRENT}; echo; rm /allowed; {TRY}")];
    let first = |outcome: &Outcome| shown(outcome)[0].clone();
    let exec = c.exec_with(&["--process-label", OTHER], &show).ok();
    assert_eq!(first(&exec), OTHER);
    assert!(exec.stdout.ends_with("0\n0\n"), "{exec}");
    let exec = c.exec_with(&["--no-new-privs", "--process-label", OTHER], &show).ok();
    assert_eq!(first(&exec), OTHER);
    let process = json!({ "args": show, "cwd": "/", "user": {}, "selinuxLabel": OTHER });
    assert_eq!(first(&exec_process(bed, &c, &process).run().ok()), OTHER);
    assert_eq!(current(c.pid()), CONTAINER);
}

/// Returns the result of keyctl(KEYCTL_GET_SECURITY) for the container's session keyring.
fn label_of_keyring(c: &Container<'_>) -> String {
    let script = "import ctypes, sys\n\
                  name = '_ses.' + sys.argv[1]\n\
                  keys = [line.split() for line in open('/proc/keys')]\n\
                  key = int(next(key[0] for key in keys if key[8].startswith(name)), 16)\n\
                  text = ctypes.create_string_buffer(200)\n\
                  if ctypes.CDLL(None).syscall(250, 17, key, text, 200) < 0: sys.exit('keyctl')\n\
                  print(text.value.decode())";
    c.bed.program("python3", &["-c", script, &c.id]).run().ok().stdout
}

fn key_label(bed: &Bed) {
    let c = bed.bundle().set("/process/selinuxLabel", json!(CONTAINER)).make();
    c.create().ok();
    assert_eq!(label_of_keyring(&c), format!("{CONTAINER}\n"));
    c.start().ok();
    // Keys that the program creates get the program's label, whatever the keyring's label is.
    let made = fs::read(format!("/proc/{}/attr/keycreate", c.pid())).expect("attr/keycreate");
    assert_eq!(String::from_utf8_lossy(&made), "");
}

fn wrong_process_label(bed: &Bed) {
    let c = bed.bundle().set("/process/selinuxLabel", json!(WRONG)).make();
    for outcome in [c.create(), c.run()] {
        is_refused(outcome, 1);
        c.assert_gone("a wrong label");
    }
}

/// Asserts that the error names the file that the label was written to, and the kernel's reason.
fn is_refused(outcome: Outcome, code: i32) {
    let outcome = outcome.fails_as(code, "invalid argument");
    assert!(outcome.stderr.contains("attr/"), "{outcome}");
}

fn wrong_process_label_for_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let processes = || c.sh("ls -d /proc/[0-9]*").ok().lines().len();
    let before = processes();
    is_refused(c.exec_with(&["--process-label", WRONG], &["true"]), 255);
    let process = json!({ "args": ["true"], "cwd": "/", "user": {}, "selinuxLabel": WRONG });
    is_refused(exec_process(bed, &c, &process).run(), 255);
    assert_eq!((c.status().as_str(), processes()), ("running", before));
}

fn labelled(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle.set("/process/selinuxLabel", json!(CONTAINER)).set("/linux/mountLabel", json!(OWN))
}

fn in_a_user_namespace(bed: &Bed) {
    let c = labelled(crate::userns::mapped(bed)).make().detached();
    assert_eq!(current(c.pid()), CONTAINER);
    assert_eq!(super::selinux_mounts::label_of(&c, "dev/shm"), OWN);
    assert_eq!(super::selinux_mounts::label_of(&c, "dev/pts"), OWN);
    let exec = c.exec_with(&["--process-label", OTHER], &["/bin/sh", "-c", CURRENT]).ok();
    assert_eq!(shown(&exec), [OTHER]);
}

fn of_a_user(bed: &Bed) {
    let user = User::new(bed);
    let c = labelled(user.ranges()).make().detached();
    assert_eq!(current(c.pid()), CONTAINER);
    assert_eq!(super::selinux_mounts::label_of(&c, "dev/shm"), OWN);
    assert_eq!(shown(&c.sh(CURRENT).ok()), [CONTAINER]);
}
