//! Hooks of all six kinds: order, the state they are given, failure.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;

pub const CASES: &[Case] = &[
    case!(order).unlike_runc(),
    case!(order_across_create_start_delete).unlike_runc(),
    case!(state_on_stdin).unlike_runc(),
    case!(namespaces_they_run_in),
    case!(arguments_and_environment),
    case!(empty_environment),
    case!(environment_where_none_is_given),
    case!(several_of_a_kind_in_order),
    case!(failing_prestart),
    case!(failing_create_runtime),
    case!(failing_create_container),
    case!(failing_start_container),
    case!(failing_poststart_ends_the_container),
    case!(failing_poststop_still_deletes),
    case!(missing_program),
    case!(timeout),
    case!(program_output_is_not_the_containers),
    case!(large_state_is_read_by_nobody),
];

const KINDS: &[&str] =
    &["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// A hook that runs `script`; startContainer hooks run inside the container,
/// where `/bin/sh` is busybox's.
fn hook(script: &str) -> Value {
    json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"] })
}

/// A directory that hooks on both sides of the container see at the same path.
fn journal<'a>(bed: &Bed, bundle: Bundle<'a>) -> (Bundle<'a>, std::path::PathBuf) {
    let dir = bed.dir.join("journal");
    fs::create_dir(&dir).expect("make journal");
    let path = dir.to_str().expect("path").to_owned();
    (bundle.mount("bind", &path, &path, &["bind"]), dir)
}

fn all_kinds<'a>(bed: &Bed, bundle: Bundle<'a>) -> (Bundle<'a>, std::path::PathBuf) {
    let (mut bundle, dir) = journal(bed, bundle);
    let path = dir.display();
    for kind in KINDS {
        bundle = bundle.push(
            &format!("/hooks/{kind}"),
            hook(&format!("cat >{path}/{kind}.json; echo {kind} >>{path}/order")),
        );
    }
    (bundle.sh(&format!("echo program >>{path}/order")), dir)
}

fn read(dir: &std::path::Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_default()
}

fn order(bed: &Bed) {
    let (bundle, dir) = all_kinds(bed, bed.bundle());
    bundle.make().run().ok();
    let text = read(&dir, "order");
    let mut lines: Vec<&str> = text.lines().collect();
    // poststart and the program run side by side.
    lines.retain(|line| *line != "program");
    assert_eq!(lines, KINDS);
    assert!(text.contains("program"));
}

fn order_across_create_start_delete(bed: &Bed) {
    let (bundle, dir) = all_kinds(bed, bed.bundle());
    let c = bundle.make();
    let lines = || {
        read(&dir, "order")
            .lines()
            .map(str::to_owned)
            .filter(|line| line != "program")
            .collect::<Vec<_>>()
    };
    c.create().ok();
    assert_eq!(lines(), KINDS[..3]);
    c.start().ok();
    c.wait_status("stopped");
    assert_eq!(lines(), KINDS[..5]);
    c.delete().ok();
    assert_eq!(lines(), KINDS);
}

fn state_on_stdin(bed: &Bed) {
    let (bundle, dir) = all_kinds(bed, bed.bundle());
    let c = bundle.set("/annotations", json!({ "org.example": "yes" })).make();
    c.run().ok();
    let expected = ["created", "creating", "creating", "created", "running", "stopped"];
    for (kind, status) in KINDS.iter().zip(expected) {
        let state: Value =
            serde_json::from_str(&read(&dir, &format!("{kind}.json"))).expect("state");
        assert_eq!(state["id"], c.id.as_str(), "{kind}");
        assert_eq!(state["status"], status, "{kind}");
        assert_eq!(state["bundle"], c.bundle.to_str().expect("path"), "{kind}");
        assert_eq!(state["annotations"], json!({ "org.example": "yes" }), "{kind}");
        assert!(state["ociVersion"].is_string(), "{kind}");
        if *kind != "poststop" {
            assert!(state["pid"].as_i64().is_some_and(|pid| pid > 0), "{kind}: {state}");
        }
    }
}

fn namespaces_they_run_in(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    let path = dir.display();
    for kind in KINDS {
        bundle = bundle.push(
            &format!("/hooks/{kind}"),
            hook(&format!("readlink /proc/self/ns/mnt >{path}/{kind}; exit 0")),
        );
    }
    let c = bundle.make();
    c.create().ok();
    c.start().ok();
    let inside = fs::read_link(format!("/proc/{}/ns/mnt", c.pid()))
        .expect("namespace")
        .to_string_lossy()
        .into_owned();
    let outside =
        fs::read_link("/proc/self/ns/mnt").expect("namespace").to_string_lossy().into_owned();
    c.delete_force().ok();
    for kind in KINDS {
        let expected =
            if matches!(*kind, "createContainer" | "startContainer") { &inside } else { &outside };
        assert_eq!(read(&dir, kind).trim(), expected, "{kind}");
    }
}

fn arguments_and_environment(bed: &Bed) {
    let (bundle, dir) = journal(bed, bed.bundle());
    let out = dir.join("out");
    let script = format!("echo \"$0|$1|$COLOUR|$TERM\" >{}", out.display());
    let c = bundle
        .push("/hooks/createRuntime", json!({ "path": "/bin/sh", "args": ["sh", "-c", script, "zero", "one two"], "env": ["COLOUR=red"] }))
        .args(&["/bin/true"])
        .make();
    c.run().ok();
    assert_eq!(read(&dir, "out"), "zero|one two|red|\n");
}

/// One without entries is one, but for those that run in the container (as with runc).
fn empty_environment(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    for kind in KINDS {
        let script = format!("echo \"$OUTSIDE|$INSIDE\" >{}/{kind}", dir.display());
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": [] });
        bundle = bundle.push(&format!("/hooks/{kind}"), hook);
    }
    let c = bundle.push("/process/env", json!("INSIDE=there")).args(&["/bin/true"]).make();
    c.bundle_call("run", &[]).env("OUTSIDE", "here").run().ok();
    for kind in KINDS {
        let expected = if *kind == "startContainer" { "|there" } else { "|" };
        assert_eq!(read(&dir, kind).trim(), expected, "{kind}");
    }
}

/// Outside the container it is the command's, inside the process's.
fn environment_where_none_is_given(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    for kind in KINDS {
        let script = format!("echo \"$OUTSIDE|$INSIDE\" >{}/{kind}", dir.display());
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
        bundle = bundle.push(&format!("/hooks/{kind}"), hook);
    }
    let c = bundle.push("/process/env", json!("INSIDE=there")).args(&["/bin/true"]).make();
    c.bundle_call("run", &[]).env("OUTSIDE", "here").run().ok();
    for kind in KINDS {
        let expected = match *kind {
            "createContainer" => "|",
            "startContainer" => "|there",
            _ => "here|",
        };
        assert_eq!(read(&dir, kind).trim(), expected, "{kind}");
    }
}

fn several_of_a_kind_in_order(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    for number in 0..5 {
        bundle = bundle
            .push("/hooks/prestart", hook(&format!("echo {number} >>{}/order", dir.display())));
    }
    bundle.args(&["/bin/true"]).make().run().ok();
    assert_eq!(read(&dir, "order"), "0\n1\n2\n3\n4\n");
}

fn failing(bed: &Bed, kind: &str) {
    let c = bed.bundle().push(&format!("/hooks/{kind}"), hook("echo because >&2; exit 3")).make();
    c.create().fails("exit status 3");
    assert!(!c.exists());
}

fn failing_prestart(bed: &Bed) {
    failing(bed, "prestart");
}

fn failing_create_runtime(bed: &Bed) {
    failing(bed, "createRuntime");
}

fn failing_create_container(bed: &Bed) {
    failing(bed, "createContainer");
}

fn failing_start_container(bed: &Bed) {
    let (bundle, dir) = journal(bed, bed.bundle());
    let c = bundle
        .push("/hooks/startContainer", hook("exit 3"))
        .sh(&format!("echo ran >{}/ran", dir.display()))
        .make();
    c.create().ok();
    c.start();
    c.wait_status("stopped");
    assert!(!dir.join("ran").exists(), "the program never runs");
    c.delete().ok();
}

fn failing_poststart_ends_the_container(bed: &Bed) {
    let c = bed.bundle().push("/hooks/poststart", hook("exit 3")).make();
    c.run().fails("error running poststart hook #0: exit status 3");
    assert!(!c.exists());
}

fn failing_poststop_still_deletes(bed: &Bed) {
    let hooks = bed.bundle().push("/hooks/poststop", hook("exit 0"));
    let c = hooks.push("/hooks/poststop", hook("exit 3")).make().detached();
    let outcome = c.delete_force();
    assert!(!c.exists());
    let warned = outcome.log().contains("error running poststop hook #1: exit status 3");
    assert!(warned, "{outcome}");
}

fn missing_program(bed: &Bed) {
    let c = bed.bundle().push("/hooks/prestart", json!({ "path": "/no/such/hook" })).make();
    c.create().fails("no such file or directory");
    assert!(!c.exists());
}

fn timeout(bed: &Bed) {
    let mut slow = hook("exec sleep 1000");
    slow["timeout"] = json!(1);
    let c = bed.bundle().push("/hooks/createRuntime", slow).make();
    c.create().fails("hook ran past specified timeout of 1");
    assert!(!c.exists());
}

fn program_output_is_not_the_containers(bed: &Bed) {
    let c = bed
        .bundle()
        .push("/hooks/prestart", hook("echo from the hook"))
        .sh("echo from the program")
        .make();
    let outcome = c.run().ok();
    assert_eq!(outcome.stdout, "from the program\n");
}

fn large_state_is_read_by_nobody(bed: &Bed) {
    // A hook that never reads its input must not stop the runtime, however
    // much there is to read.
    let c = bed
        .bundle()
        .set("/annotations", json!({ "long": "x".repeat(200_000) }))
        .push("/hooks/prestart", json!({ "path": "/bin/true" }))
        .args(&["/bin/true"])
        .make();
    c.run().ok();
}
