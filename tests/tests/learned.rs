//! `dayfly profile learn`: a seccomp profile from the system calls of a container's processes.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::{Bundle, CAPABILITIES};
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome, uses_every_fast_path};
use dayfly_tests::view::View;
use dayfly_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The cases run in one view only, since the calls do not depend on the cgroup layout.
const V2: &[View] = &[View::V2];

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(what_was_learned_is_enough).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(what_was_not_made_is_refused).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(never_wider_than_before).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(children_and_threads_are_heard)
        .on(V2)
        .when(uses_every_fast_path)
        .needs(tool)
        .unlike_runc(),
    case!(without_a_profile).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(with_a_former_one).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(under_a_filter_loaded_early).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(a_later_exec_has_what_it_needs)
        .on(V2)
        .when(uses_every_fast_path)
        .needs(tool)
        .unlike_runc(),
    case!(a_run_that_fails).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(bad_input).on(V2).when(uses_every_fast_path).needs(tool).unlike_runc(),
    case!(interrupted_runs_leave_nothing)
        .on(V2)
        .when(uses_every_fast_path)
        .needs(tool)
        .unlike_runc(),
];

/// Checks that the program that `dayfly profile` executes is in dayfly's directory.
fn tool() -> Result<(), String> {
    let tool = dayfly_tests::runner::runtime_path().with_file_name("dayfly-profile");
    let missing = || format!("no {}: cargo build --release -p dayfly-host", tool.display());
    tool.exists().then_some(()).ok_or_else(missing)
}

/// Returns a profile like that of engines.
fn engines_profile() -> Value {
    dayfly_tests::profile::seccomp(CAPABILITIES)
}

/// Returns a bundle with the engines' profile that runs `script`, and its directory.
fn engines<'a>(bed: &'a Bed, script: &str) -> (Bundle<'a>, PathBuf) {
    let bundle = bed.bundle().set("/linux/seccomp", engines_profile()).sh(script);
    let directory = bundle.dir.clone();
    (bundle, directory)
}

fn learn(bed: &Bed, bundle: &Path, more: &[&str]) -> Call {
    let place = bundle.to_str().expect("path");
    let call = bed.call_bare(&[&["profile", "learn", "--bundle", place][..], more].concat());
    call.env("TMPDIR", bed.dir.to_str().expect("path"))
}

/// Learns a profile into a file; returns the command's outcome, and the profile.
fn learned(bed: &Bed, bundle: &Path, more: &[&str]) -> (Outcome, Value) {
    let file = bed.dir.join("learned.json");
    let outcome =
        learn(bed, bundle, &[&["-n", "2", "-o", text(&file)][..], more].concat()).run().ok();
    assert_eq!(left(bed), Vec::<String>::new());
    let profile = serde_json::from_slice(&fs::read(&file).expect("a profile")).expect("JSON");
    (outcome, profile)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("path")
}

/// Returns the files that learning has left in the bed beside the bundles.
fn left(bed: &Bed) -> Vec<String> {
    let entries = fs::read_dir(&bed.dir).expect("list").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("dayfly-profile-") || name.ends_with(".new")).collect()
}

/// Returns the names that a profile allows.
fn allowed(profile: &Value) -> BTreeSet<String> {
    let rules = profile["syscalls"].as_array().expect("rules").iter();
    let allowing = rules.filter(|rule| rule["action"] == "SCMP_ACT_ALLOW");
    let names = allowing.flat_map(|rule| rule["names"].as_array().expect("names"));
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

fn what_was_learned_is_enough(bed: &Bed) {
    let script = "mkdir /tmp/d && rmdir /tmp/d && cat /etc/passwd | wc -l && sleep 0.01";
    let (bundle, directory) = engines(bed, script);
    let _container = bundle.make();
    let (outcome, learned) = learned(bed, &directory, &[]);
    assert!(
        outcome.stdout.contains("with the learned profile the bundle ran 2 times more"),
        "{outcome}"
    );
    for line in ["run 1 of 2: ", "filter, instructions", "compile, µs", "load, µs"] {
        assert!(outcome.stdout.contains(line), "{line}: {outcome}");
    }
    let (before, after) = (allowed(&engines_profile()), allowed(&learned));
    assert!(after.is_subset(&before) && after.len() < before.len() / 3, "{after:?}");
    let (again, _) = engines(bed, script);
    again.set("/linux/seccomp", learned).make().run().ok();
}

fn what_was_not_made_is_refused(bed: &Bed) {
    let script = "ls / >/dev/null; echo done";
    let (bundle, directory) = engines(bed, script);
    let _container = bundle.make();
    let (_, learned) = learned(bed, &directory, &[]);
    assert!(!allowed(&learned).contains("mkdir"), "{learned:#}");
    let go = "ls / >/dev/null; mkdir /tmp/d; echo done";
    let with = |profile: Value| bed.bundle().set("/linux/seccomp", profile).sh(go).make().run();
    with(engines_profile()).ok();
    let outcome = with(learned).ok();
    assert_eq!(outcome.stdout, "done\n");
    assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
}

/// The program tries calls that the bundle's own profile refuses, by name or by arguments: the learned profile must not
/// allow them.
fn never_wider_than_before(bed: &Bed) {
    let mut old = engines_profile();
    let rules = old["syscalls"].as_array_mut().expect("rules");
    rules.insert(
        0,
        json!({ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28 }),
    );
    for rule in rules.iter_mut() {
        let names = rule["names"].as_array_mut().expect("names");
        names.retain(|name| name != "umask" && name != "chmod" && name != "fchmodat");
    }
    rules.push(json!({ "names": ["umask"], "action": "SCMP_ACT_ALLOW",
        "args": [{ "index": 0, "value": 0o77, "op": "SCMP_CMP_EQ" }] }));
    let script = "mkdir /tmp/d; chmod 700 /tmp; umask 077; exit 0";
    let bundle = bed.bundle().set("/linux/seccomp", old.clone()).sh(script);
    let directory = bundle.dir.clone();
    let _container = bundle.make();
    let (outcome, learned) = learned(bed, &directory, &[]);
    assert!(outcome.stdout.contains("made, and refused as before: "), "{outcome}");
    let allowed = allowed(&learned);
    assert!(!allowed.contains("chmod") && !allowed.contains("fchmodat"), "{allowed:?}");
    let rules = learned["syscalls"].as_array().expect("rules");
    assert_eq!(rules[0], old["syscalls"][0]);
    let umask = rules.iter().find(|rule| rule["names"] == json!(["umask"])).expect("umask");
    assert_eq!(umask["args"][0]["value"], 0o77);
    let run =
        bed.bundle().set("/linux/seccomp", learned).sh("mkdir /tmp/d; umask 022; umask 077; umask");
    let outcome = run.make().run();
    assert!(outcome.stderr.contains("No space left on device"), "{outcome}");
}

fn children_and_threads_are_heard(bed: &Bed) {
    let script =
        "(sh -c 'sh -c \"ln -s /a /tmp/l; uname >/dev/null\" & wait') && rmdir /nothing; exit 0";
    let (bundle, directory) = engines(bed, script);
    let _container = bundle.make();
    let (_, learned) = learned(bed, &directory, &[]);
    let allowed = allowed(&learned);
    for calls in [&["symlink", "symlinkat"][..], &["uname"], &["rmdir", "unlinkat"], &["wait4"]] {
        assert!(calls.iter().any(|call| allowed.contains(*call)), "{calls:?} of {allowed:?}");
    }
}

fn without_a_profile(bed: &Bed) {
    let bundle = bed.bundle().unset("/linux/seccomp").sh("echo hello");
    let directory = bundle.dir.clone();
    let _container = bundle.make();
    // Without a file, standard output contains only the profile.
    let outcome = learn(bed, &directory, &["-n", "1"]).run().ok();
    let learned: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(learned["defaultAction"], "SCMP_ACT_ERRNO");
    assert!(
        outcome.stderr.contains("no filter") && outcome.stderr.contains("hello\n"),
        "{outcome}"
    );
    let with =
        |script: &str| bed.bundle().set("/linux/seccomp", learned.clone()).sh(script).make().run();
    assert_eq!(with("echo hello").ok().stdout, "hello\n");
    let outcome = with("echo hello; mkdir /tmp/d");
    assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
}

fn with_a_former_one(bed: &Bed) {
    let (bundle, directory) = engines(bed, "mkdir /tmp/d && rmdir /tmp/d");
    let _container = bundle.make();
    let (_, first) = learned(bed, &directory, &[]);
    let first_file = bed.dir.join("first.json");
    fs::write(&first_file, first.to_string()).expect("write");
    // Learns another program in the same bundle.
    let (_, alone) = learned(bed, &directory, &["--", "/bin/sh", "-c", "ln -sf /a /tmp/l"]);
    let merge = ["--merge", text(&first_file), "--", "/bin/sh", "-c", "ln -sf /a /tmp/l"];
    let (_, both) = learned(bed, &directory, &merge);
    let makes = |names: &BTreeSet<String>| names.contains("mkdir") || names.contains("mkdirat");
    assert!(makes(&allowed(&first)) && !makes(&allowed(&alone)));
    assert!(allowed(&both).is_superset(&allowed(&first)));
    assert!(allowed(&both).is_superset(&allowed(&alone)));
    // A merged profile does not add calls that the bundle's own profile refuses.
    let wide = json!({ "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{ "names": ["reboot", "mkdir"], "action": "SCMP_ACT_ALLOW" }] });
    fs::write(&first_file, wide.to_string()).expect("write");
    let (_, both) = learned(bed, &directory, &merge);
    assert!(!allowed(&both).contains("reboot") && allowed(&both).contains("mkdir"));
}

/// Without no_new_privs the filter is loaded before the last capabilities are dropped, so it must allow the calls that
/// drop them.
fn under_a_filter_loaded_early(bed: &Bed) {
    let (bundle, directory) = engines(bed, "true");
    let _container = bundle.set("/process/noNewPrivileges", json!(false)).make();
    let (_, learned) = learned(bed, &directory, &[]);
    assert!(allowed(&learned).contains("capset"));
    let run =
        bed.bundle().set("/linux/seccomp", learned).set("/process/noNewPrivileges", json!(false));
    run.sh("true").make().run().ok();
}

/// The calls that `create`, `start` and `exec` make under the filter are among those that `run` makes, so a profile
/// learned from `run` allows them.
fn a_later_exec_has_what_it_needs(bed: &Bed) {
    for no_new_privileges in [true, false] {
        let (bundle, directory) = engines(bed, "ls / >/dev/null; sleep 0.01");
        let _container = bundle.set("/process/noNewPrivileges", json!(no_new_privileges)).make();
        let (_, learned) = learned(bed, &directory, &[]);
        let container = bed.bundle().set("/linux/seccomp", learned).args(&["/bin/sleep", "1000"]);
        let container = container.set("/process/noNewPrivileges", json!(no_new_privileges)).make();
        container.create().ok();
        container.start().ok();
        container.sh("ls / >/dev/null").ok();
        let outcome = container.sh("ls / >/dev/null; mkdir /tmp/d").exits(1);
        assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
        container.delete_force().ok();
    }
}

fn a_run_that_fails(bed: &Bed) {
    let file = bed.dir.join("none.json");
    let (bundle, directory) = engines(bed, "exit 3");
    let _container = bundle.make();
    let outcome = learn(bed, &directory, &["-o", text(&file)]).run().exits(1);
    let expected = "learning, run 1 of 3: the run failed: exit status 3; nothing is written";
    assert!(outcome.stderr.contains(expected), "{outcome}");
    // The calls of a program that acts differently each time can't be learned from too few runs.
    let (bundle, directory) =
        engines(bed, "echo x >>/count; [ $(wc -l </count) -lt 3 ] || mkdir /tmp/d");
    let _container = bundle.set("/root/readonly", json!(false)).make();
    let outcome = learn(bed, &directory, &["-n", "1", "-o", text(&file)]).run().exits(1);
    let expected = "with the learned profile, run 1 of 1: the run failed: exit status 1";
    assert!(outcome.stderr.contains(expected), "{outcome}");
    assert!(!file.exists());
    assert_eq!(left(bed), Vec::<String>::new());
}

fn bad_input(bed: &Bed) {
    let (bundle, directory) = engines(bed, "true");
    let _container = bundle.make();
    let fails = |directory: &Path, more: &[&str], expected: &str| {
        let outcome = learn(bed, directory, more).run().exits(1);
        assert!(outcome.stderr.contains(expected), "{expected}: {outcome}");
        assert_eq!(left(bed), Vec::<String>::new());
    };
    fails(&directory, &["-n", "0"], "0 is not in 1..");
    fails(&bed.dir.join("none"), &[], "config.json");
    fails(&directory, &["--merge", "/none"], "/none");
    fails(&directory, &["--merge", "/proc/version"], "/proc/version");
    fails(&directory, &["-o", "/none/file"], "/none");
    fails(&directory, &["--runtime", "/none/dayfly"], "/none/dayfly");
    fails(&directory, &["--", "/no/such/program"], "nothing is written");
    fails(&directory, &["--deadline", "1", "--", "/bin/sleep", "100"], "did not end within 1s");
    let config = directory.join("config.json");
    let text = fs::read_to_string(&config).expect("config");
    let changed = |profile: Value| {
        let mut config_of: Value = serde_json::from_str(&text).expect("JSON");
        config_of["linux"]["seccomp"] = profile;
        fs::write(&config, config_of.to_string()).expect("write");
    };
    changed(json!({ "defaultAction": "SCMP_ACT_SMILE" }));
    fails(&directory, &[], "SCMP_ACT_SMILE");
    changed(json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{ "names": ["clone"],
        "action": "SCMP_ACT_ERRNO", "args": [{ "index": 0, "value": 1, "op": "SCMP_CMP_EQ" }] }] }));
    fails(&directory, &[], "refuses clone by arguments");
    fs::write(&config, "{").expect("write");
    fails(&directory, &[], "config.json: ");
}

fn interrupted_runs_leave_nothing(bed: &Bed) {
    for signal in [Signal::TERM, Signal::INT] {
        let (bundle, directory) = engines(bed, "echo x >>/started; sleep 1000");
        let started = bundle.rootfs().join("started");
        let container = bundle.set("/root/readonly", json!(false)).make();
        let file = bed.dir.join("none.json");
        let running = learn(bed, &directory, &["-o", text(&file)]).spawn();
        wait::until_true("the program", || started.exists());
        running.signal(signal);
        let outcome = running.wait().exits(1);
        assert!(outcome.stderr.contains("interrupted"), "{outcome}");
        assert!(!file.exists());
        assert_eq!(left(bed), Vec::<String>::new());
        container.assert_gone("an interrupted run");
    }
}
