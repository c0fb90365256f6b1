//! The steps that `plan` prints are those that a start with the same options executes.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::console::FdSocket;
use dayfly_tests::container::Container;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::user::{self, User};
use dayfly_tests::view::View;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::net::UnixDatagram;
use trace::Timeline;

use crate::templates;
use crate::userns::mapped;

dayfly_tests::subject!(Runtime, CASES);

// Alone: while another start makes the blank mount namespace, a start does not use it.
const CASES: &[Case] = &[
    case!(plain).unlike_runc().alone(),
    case!(options_of_starts).unlike_runc().alone(),
    case!(pinned).on(&[View::V1, View::Hybrid]).unlike_runc().alone(),
    case!(under_a_service_manager).unlike_runc().alone(),
    case!(every_kind_of_hook).unlike_runc().alone(),
    case!(with_a_filter).unlike_runc().alone(),
    case!(in_a_user_namespace).unlike_runc().alone(),
    case!(with_a_terminal).unlike_runc().alone(),
    case!(from_layers).unlike_runc().alone(),
    case!(from_the_mounts_of_a_snapshot).unlike_runc().alone(),
    case!(forked_by_a_template).unlike_runc().alone().needs(templates::lacking),
    case!(without_root).unlike_runc().alone().needs(user::can_be),
    case!(nothing_is_made).unlike_runc(),
];

/// What the command does besides the parent's steps, by the beginning of its name in the trace.
const OF_COMMAND: [&str; 36] = [
    "admit forked program",
    "announce pid",
    "ask for fork",
    "await exit",
    "await fork",
    "await forked program",
    "await hook",
    "await readiness",
    "await unlock",
    "begin network",
    "cache seccomp filter",
    "claim",
    "compile plan",
    "container runs",
    "exec dayfly",
    "find blank namespace",
    "find cgroup",
    "find device program",
    "find seccomp filter",
    "find template container",
    "identify",
    "limit forked program",
    "make directory",
    "parse config",
    "prepare layers",
    "prepare rootfs",
    "read arguments",
    "read config",
    "read record",
    "release rootfs",
    "remove",
    "run hooks poststart",
    "run hooks poststop",
    "seal",
    "verify forked program",
    "write record",
];

/// Returns the name of a step, in which the id and the numbers of descriptors do not differ between plan and start.
fn step(name: &str, object: &str, id: &str) -> String {
    let text = format!("{name} {object}").replace(id, "plan");
    let mut parts = text.trim().split("/proc/self/fd/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        format!("{text}/proc/self/fd/N{}", part.trim_start_matches(|c: char| c.is_ascii_digit()))
    })
}

/// Asserts that the plan with these options has exactly the steps of a `run` with them. Returns the passes that have an
/// effect on the configuration.
#[track_caller]
fn alike(c: &Container<'_>, flags: &[&str], change: &dyn Fn(Call) -> Call) -> Value {
    let bundle = c.bundle.to_string_lossy();
    let plan = [&["plan", "--run", "--format", "json"], flags, &[&bundle]].concat();
    let call = |call: Call| change(call).run();
    let plan = call(c.bed.call(&plan)).ok();
    let plan: Value = serde_json::from_str(&plan.stdout).expect("JSON");
    let file = c.bed.dir.join(format!("{}.jsonl", c.id));
    let trace = ["--trace", file.to_str().expect("path")];
    call(c.bundle_call("run", &[&trace, flags].concat())).ok();
    compare(&plan, &fs::read_to_string(&file).expect("trace"), &c.id);
    plan["passes"].clone()
}

#[track_caller]
fn compare(plan: &Value, trace: &str, id: &str) {
    let line = Timeline::from_lines(trace).expect("trace");
    for actor in ["parent", "init"] {
        let planned = plan[actor].as_array().expect("steps").iter().map(|planned| {
            let text = |key: &str| planned[key].as_str().unwrap_or_default();
            step(text("step"), text("object"), id)
        });
        let mut planned: Vec<String> = planned.collect();
        if let Some(end) = planned.iter().position(|name| name == "wait for forked program") {
            // What follows is done by the forked program.
            planned.truncate(end + 1);
        }
        let row = line.rows.iter().find(|row| row.name == actor).expect("a row");
        let done = row.spans.iter().map(|span| step(&span.name, &span.object, id));
        let is_step = |name: &String| {
            planned.contains(name) || !OF_COMMAND.iter().any(|other| name.starts_with(other))
        };
        let done: Vec<String> = done.filter(is_step).collect();
        assert_eq!(planned, done, "{actor}");
    }
}

fn plain(bed: &Bed) {
    let passes = alike(&bed.bundle().args(&["/bin/true"]).make(), &[], &|call| call);
    assert_eq!(passes, json!([]));
}

fn options_of_starts(bed: &Bed) {
    let flags: [&[&str]; 4] =
        [&["--start-cpus", "0"], &["--no-pivot"], &["--no-new-keyring"], &["--preserve-fds", "0"]];
    for flags in flags {
        alike(&bed.bundle().args(&["/bin/true"]).make(), flags, &|call| call);
    }
}

fn pinned(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    assert_eq!(alike(&c, &["--pin", "node:0"], &|call| call), json!(["pin"]));
}

fn under_a_service_manager(bed: &Bed) {
    let path = bed.dir.join("manager.sock");
    let _socket = UnixDatagram::bind(&path).expect("bind");
    let serve = |call: Call| call.env("NOTIFY_SOCKET", path.to_str().expect("path"));
    let c = bed.bundle().args(&["/bin/true"]).make();
    assert_eq!(alike(&c, &[], &serve), json!(["notify-socket"]));
    let plan = serve(bed.call(&["plan", c.bundle.to_str().expect("path")])).run().ok();
    assert!(plan.stdout.contains("attach tree /run/notify"), "{plan}");
    assert!(plan.stdout.contains("\nspec    configuration  pass notify-socket\n"), "{plan}");
}

fn every_kind_of_hook(bed: &Bed) {
    let hook = || json!([{ "path": "/bin/true" }]);
    let hooks = json!({
        "prestart": hook(), "createRuntime": hook(), "createContainer": hook(), "startContainer": hook(),
        "poststart": hook(), "poststop": hook(),
    });
    alike(&bed.bundle().set("/hooks", hooks).args(&["/bin/true"]).make(), &[], &|call| call);
}

fn with_a_filter(bed: &Bed) {
    let rule = json!({ "names": ["personality"], "action": "SCMP_ACT_ERRNO" });
    let c = bed
        .bundle()
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule] }))
        .set("/process/noNewPrivileges", json!(true))
        .mount("tmpfs", "tmpfs", "/scratch", &["size=64k", "ro"])
        .mount("bind", "/etc/hostname", "/etc/hostname", &["bind", "ro"])
        .args(&["/bin/true"])
        .make();
    alike(&c, &[], &|call| call);
}

fn in_a_user_namespace(bed: &Bed) {
    alike(&mapped(bed).args(&["/bin/true"]).make(), &[], &|call| call);
}

fn with_a_terminal(bed: &Bed) {
    let socket = FdSocket::new(&bed.dir, "console.sock");
    let c = bed.bundle().set("/process/terminal", json!(true)).args(&["/bin/true"]).make();
    let file = bed.dir.join("terminal.jsonl");
    let (console, trace) = (socket.arg(), file.display().to_string());
    let bundle = c.bundle.to_string_lossy();
    let plan = ["plan", "--format", "json", "--console-socket", &console, &bundle];
    let plan: Value = serde_json::from_str(&bed.call(&plan).run().ok().stdout).expect("JSON");
    c.bundle_call("create", &["--console-socket", &console, "--trace", &trace]).run().ok();
    let line = fs::read_to_string(&file).expect("trace");
    let line = Timeline::from_lines(&line).expect("trace");
    // Init goes on after `create`, so that the end of its row varies.
    let row = line.rows.iter().find(|row| row.name == "init").expect("init");
    for (planned, span) in plan["init"].as_array().expect("steps").iter().zip(&row.spans) {
        assert_eq!(planned["step"], span.name.as_ref() as &str);
    }
    c.delete_force().ok();
}

fn from_layers(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let own = layers.flags();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let leases = layers.leases.clone();
    let env = |call: Call| call.env("DAYFLY_IDS", leases.to_str().expect("path"));
    let flags: [&[&str]; 4] =
        [&[], &["--userns", "host"], &["--ephemeral"], &["--rootfs-mode", "copy"]];
    for flags in flags {
        let c = bed.bundle().args(&["/bin/true"]).make();
        assert_eq!(alike(&c, &[&own, flags].concat(), &env), json!(["layers"]));
    }
    assert_eq!(layers.left(), Vec::<String>::new());
}

fn from_the_mounts_of_a_snapshot(bed: &Bed) {
    let lower = bed.bundle().rootfs();
    let overlay = |name: &str| {
        let place = bed.dir.join(name);
        fs::create_dir_all(place.join("upper")).expect("mkdir");
        fs::create_dir_all(place.join("work")).expect("mkdir");
        let of = |key: &str, directory: &str| format!("{key}={}", place.join(directory).display());
        json!([{ "type": "overlay", "source": "overlay", "options": [
            of("upperdir", "upper"), of("workdir", "work"), format!("lowerdir={}", lower.display())] }])
    };
    let bind = json!([{ "type": "bind", "source": lower, "options": ["rbind", "ro"] }]);
    for mounts in [bind, overlay("snapshot")] {
        let file = bed.dir.join("mounts.json");
        fs::write(&file, mounts.to_string()).expect("write");
        let c = bed.bundle().args(&["/bin/true"]).make();
        let flags = ["--rootfs-mounts", file.to_str().expect("path")];
        assert_eq!(alike(&c, &flags, &|call| call), json!(["rootfs-mounts"]));
    }
}

fn forked_by_a_template(bed: &Bed) {
    let template = templates::template(templates::bundle(bed, templates::PROGRAM));
    let c = templates::other(&template, |config| {
        let args = config["process"]["args"].as_array_mut().expect("args");
        args.push(json!("pass"));
    });
    let passes = alike(&c, &["--template", &template.id], &|call| call);
    assert_eq!(passes, json!(["template"]));
    template.delete_force().ok();
}

fn without_root(bed: &Bed) {
    let user = User::new(bed);
    for bundle in [user.single(), user.ranges()] {
        alike(&bundle.args(&["/bin/true"]).make(), &[], &|call| call);
    }
}

/// A plan takes no id, no range of ids and no directory of a store.
fn nothing_is_made(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    let own = layers.flags();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let c = bed.bundle().make();
    let bundle = c.bundle.to_string_lossy();
    let plan = [&["plan"][..], &own, &["--userns", "auto", &bundle]].concat();
    let leases = layers.leases.to_str().expect("path");
    let plan = bed.call(&plan).env("DAYFLY_IDS", leases).run().ok();
    assert!(plan.stdout.contains("assemble rootfs"), "{plan}");
    assert_eq!(layers.left(), Vec::<String>::new());
    assert!(!layers.leases.exists() || fs::read_dir(&layers.leases).expect("read").count() == 0);
    assert!(!bed.root().join("plan").exists());
}
