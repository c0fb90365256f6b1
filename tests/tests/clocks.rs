//! The time namespace: created with offsets, joined by path and by exec.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{User, can_be};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use trace::Timeline;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(offsets).needs(time_namespaces),
    case!(without_offsets).needs(time_namespaces),
    case!(before_start_and_after).needs(time_namespaces),
    case!(exec_joins).needs(time_namespaces),
    case!(join_by_path).needs(time_namespaces),
    case!(join_wrong_type).needs(time_namespaces),
    case!(in_a_user_namespace).needs(time_namespaces),
    case!(join_with_a_user_namespace).needs(time_namespaces),
    case!(without_root).needs(users_and_time_namespaces),
    case!(trace_without_root).needs(users_and_time_namespaces).unlike_runc(),
    case!(hooks_of_the_host_stay_there).needs(time_namespaces),
    case!(traces_are_of_one_clock).needs(time_namespaces).unlike_runc(),
    case!(offset_beyond_the_kernel).needs(time_namespaces),
    case!(refused).unlike_runc(),
];

fn time_namespaces() -> Result<(), String> {
    match Path::new("/proc/self/ns/time").exists() {
        true => Ok(()),
        false => Err("a kernel without time namespaces".to_owned()),
    }
}

const WEEK: u64 = 7 * 24 * 3600;
const SHOW: &str = "readlink /proc/self/ns/time; cut -d. -f1 /proc/uptime";

/// Adds a week to the boot time clock, and subtracts 30 seconds from the monotonic clock.
fn shifted(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle.push("/linux/namespaces", json!({ "type": "time" })).set(
        "/linux/timeOffsets",
        json!({ "boottime": { "secs": WEEK, "nanosecs": 5 }, "monotonic": { "secs": -30 } }),
    )
}

fn namespace(pid: &str) -> String {
    let link = fs::read_link(format!("/proc/{pid}/ns/time")).expect("namespace");
    link.to_string_lossy().into_owned()
}

fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("uptime");
    text.split('.').next().and_then(|seconds| seconds.parse().ok()).expect("seconds")
}

/// Asserts that [`SHOW`] has printed the clocks of a namespace that is a week ahead.
fn is_a_week_ahead(shown: &str) -> String {
    let (namespace, seconds) = shown.trim().split_once('\n').expect("two lines");
    let ahead = seconds.parse::<u64>().expect("seconds") - uptime();
    assert!((WEEK - 60..=WEEK).contains(&ahead), "{shown}");
    assert_ne!(namespace, self::namespace("self"));
    namespace.to_owned()
}

fn offsets(bed: &Bed) {
    let script = format!("{SHOW}; cat /proc/self/timens_offsets");
    let outcome = shifted(bed.bundle()).sh(&script).make().run().ok();
    let (shown, offsets) = outcome.stdout.split_at(outcome.stdout.find("monotonic").expect("text"));
    is_a_week_ahead(shown);
    let words: Vec<&str> = offsets.split_whitespace().collect();
    assert_eq!(words, ["monotonic", "-30", "0", "boottime", "604800", "5"]);
}

fn without_offsets(bed: &Bed) {
    let c = bed.bundle().push("/linux/namespaces", json!({ "type": "time" })).sh(SHOW).make();
    let outcome = c.run().ok();
    assert_ne!(outcome.lines()[0], namespace("self"));
    assert!(outcome.lines()[1].parse::<u64>().expect("seconds") <= uptime());
}

/// Init is in its time namespace from the beginning, and so is a process that `exec` adds before `start`.
fn before_start_and_after(bed: &Bed) {
    let c = shifted(bed.bundle()).make();
    c.create().ok();
    let created = namespace(&c.pid().to_string());
    assert_ne!(created, namespace("self"));
    assert_eq!(is_a_week_ahead(&c.sh(SHOW).ok().stdout), created);
    c.start().ok();
    assert_eq!(namespace(&c.pid().to_string()), created);
}

fn exec_joins(bed: &Bed) {
    let c = shifted(bed.bundle()).make().detached();
    let own = namespace(&c.pid().to_string());
    assert_eq!(is_a_week_ahead(&c.sh(SHOW).ok().stdout), own);
}

fn join<'a>(bundle: Bundle<'a>, first: &Container<'_>) -> Bundle<'a> {
    bundle.join_namespace("time", &format!("/proc/{}/ns/time", first.pid()))
}

fn join_by_path(bed: &Bed) {
    let first = shifted(bed.bundle()).make().detached();
    let own = namespace(&first.pid().to_string());
    let second = join(bed.bundle(), &first).make().detached();
    assert_eq!(namespace(&second.pid().to_string()), own);
    assert_eq!(is_a_week_ahead(&second.sh(SHOW).ok().stdout), own);
    assert_eq!(is_a_week_ahead(&join(bed.bundle(), &first).sh(SHOW).make().run().ok().stdout), own);
}

fn join_wrong_type(bed: &Bed) {
    let c = bed.bundle().join_namespace("time", "/proc/self/ns/ipc").make();
    assert_eq!(c.create().code(), 1);
    assert!(!c.exists());
}

fn mapped(bundle: Bundle<'_>) -> Bundle<'_> {
    let map = |id: u32| json!([{ "containerID": 0, "hostID": id, "size": 65_536 }]);
    bundle
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", map(100_000))
        .set("/linux/gidMappings", map(200_000))
}

fn in_a_user_namespace(bed: &Bed) {
    let c = shifted(mapped(bed.bundle())).make().detached();
    let own = namespace(&c.pid().to_string());
    assert_eq!(is_a_week_ahead(&c.sh(SHOW).ok().stdout), own);
}

fn users_and_time_namespaces() -> Result<(), String> {
    can_be().and_then(|()| time_namespaces())
}

/// Init itself creates the time namespace, as root of its user namespace.
fn without_root(bed: &Bed) {
    let user = User::new(bed);
    for bundle in [user.single(), user.ranges()] {
        let c = shifted(bundle).make().detached();
        let of_init = c.sh("readlink /proc/1/ns/time; cut -d. -f1 /proc/uptime").ok().stdout;
        let own = is_a_week_ahead(&of_init);
        assert_eq!(is_a_week_ahead(&c.sh(SHOW).ok().stdout), own);
        assert_ne!(own, namespace("self"));
        c.kill("KILL").ok();
        c.wait_status("stopped");
        c.delete().ok();
    }
    let bundle = user.ranges().push("/linux/namespaces", json!({ "type": "time" }));
    bundle.args(&["/bin/true"]).make().run().ok();
}

/// In the trace, init's times continue without a jump when init enters its time namespace.
fn trace_without_root(bed: &Bed) {
    let user = User::new(bed);
    let c = shifted(user.ranges()).args(&["/bin/true"]).make();
    let file = user.bed.dir.join("trace.jsonl");
    c.run_with(&["--trace", file.to_str().expect("path")]).ok();
    let text = fs::read_to_string(&file).expect("trace");
    let line = Timeline::from_lines(&text).expect("timeline");
    assert!(line.end() - line.start() < 20_000_000_000, "{text}");
    assert!(text.contains("enter time namespace"), "{text}");
}

fn join_with_a_user_namespace(bed: &Bed) {
    let first = shifted(mapped(bed.bundle())).make().detached();
    let user = format!("/proc/{}/ns/user", first.pid());
    let second = join(bed.bundle().join_namespace("user", &user), &first).sh(SHOW).make();
    assert_eq!(is_a_week_ahead(&second.run().ok().stdout), namespace(&first.pid().to_string()));
}

/// Returns a hook that writes the time namespace it runs in to a file.
fn hook(file: &Path) -> Value {
    let script = format!("readlink /proc/self/ns/time >{}", file.display());
    json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"] })
}

fn hooks_of_the_host_stay_there(bed: &Bed) {
    let kinds = ["createRuntime", "createContainer", "poststart", "poststop"];
    let file = |kind: &str| bed.dir.join(kind);
    let mut bundle = shifted(bed.bundle());
    for kind in kinds {
        bundle = bundle.push(&format!("/hooks/{kind}"), hook(&file(kind)));
    }
    let container = bundle.args(&["/bin/readlink", "/proc/self/ns/time"]).make().run().ok().stdout;
    let seen = kinds.map(|kind| fs::read_to_string(file(kind)).expect(kind));
    let host = format!("{}\n", namespace("self"));
    assert_ne!(container, host);
    assert_eq!(seen, [host.clone(), container, host.clone(), host]);
}

/// Init's clock differs from the runtime's, but init's row in the trace must not show the difference.
fn traces_are_of_one_clock(bed: &Bed) {
    let c = shifted(bed.bundle()).make();
    let file = bed.dir.join("trace.jsonl");
    let path = file.to_str().expect("path");
    let check = || {
        let text = fs::read_to_string(&file).expect("trace");
        let line = Timeline::from_lines(&text).expect("timeline");
        let took = line.end() - line.start();
        assert!(took < 20_000_000_000, "{took} ns: {text}");
        let init = line.rows.iter().find(|row| row.name == "init").expect("init");
        let host = line.rows.iter().find(|row| row.name == "parent").expect("parent");
        assert!(host.start < init.start && init.start < host.end, "{text}");
    };
    c.run_with(&["--detach", "--trace", path]).ok();
    check();
    c.exec_with(&["--trace", path], &["true"]).ok();
    check();
    let joined = join(bed.bundle(), &c).args(&["/bin/true"]).make();
    joined.run_with(&["--trace", path]).ok();
    check();
}

fn offset_beyond_the_kernel(bed: &Bed) {
    let c = shifted(bed.bundle())
        .set("/linux/timeOffsets", json!({ "monotonic": { "secs": -1_000_000_000_000_i64 } }))
        .make();
    let outcome = c.create();
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(outcome.stderr.contains("timens_offsets"), "{outcome}");
    assert!(!c.exists());
}

fn refused(bed: &Bed) {
    let offsets = || json!({ "boottime": { "secs": 7 } });
    let fails = |bundle: Bundle<'_>, text: &str| {
        let c = bundle.make();
        c.create().fails(text);
        assert!(!c.exists());
    };
    fails(
        bed.bundle().set("/linux/timeOffsets", offsets()),
        "time namespace offsets specified, but time namespace isn't enabled in the config",
    );
    fails(
        bed.bundle()
            .join_namespace("time", "/proc/self/ns/time")
            .set("/linux/timeOffsets", offsets()),
        "both namespace path and time offsets specified",
    );
    fails(
        shifted(bed.bundle()).set("/linux/timeOffsets", json!({ "realtime": { "secs": 7 } })),
        "\"realtime\" is neither monotonic nor boottime",
    );
    fails(
        shifted(bed.bundle())
            .set("/linux/timeOffsets", json!({ "boottime": { "nanosecs": 1_000_000_000 } })),
        "nanosecs must be below 1000000000",
    );
}
