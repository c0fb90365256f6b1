//! Parameters that containerd passes to the shim in addition to the container: options, the group,
//! the version of the service; and parts of the configuration that need resources outside the
//! container.

use super::{Task, is_missing};
use crate::listener::profile;
use dayfly_tests::agent::Agent;
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Events, Line, Pipes, Shim, boot, creation, program};
use dayfly_tests::{case, cgroups, wait};
use proto::messages::options::Options;
use proto::messages::process::status;
use proto::messages::task::{
    CreateTaskResponse, Method, SERVICE_V2, ShutdownRequest, StateRequest, StateResponse,
};
use proto::messages::time::Empty;
use proto::ttrpc::status::code;
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Command;
use sys::unotify::Answer;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(root).unlike_runc(),
    case!(no_new_keyring).unlike_runc(),
    case!(no_pivot_root).unlike_runc(),
    case!(shim_cgroup).unlike_runc(),
    case!(binary_name).unlike_runc(),
    case!(groups).unlike_runc(),
    case!(all_calls_of_both_versions).unlike_runc(),
    case!(seccomp_listener).unlike_runc(),
];

fn created<'a>(container: Container<'a>, options: Options, pipes: Option<&Pipes>) -> Task<'a> {
    let shim = Shim::start_with(&container, options);
    let request = creation(&container, pipes);
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    Task { container, shim }
}

/// Runs a script to its end; returns its output, and the container's id.
fn output(bed: &Bed, script: &str, options: Options) -> (String, String) {
    let container = bed.bundle().unset("/linux/maskedPaths").sh(script).make();
    let pipes = Pipes::new(&container, "init");
    let out = pipes.reader("stdout");
    let task = created(container, options, Some(&pipes));
    task.start("");
    assert_eq!(task.wait(""), 0);
    let id = task.id();
    task.finish();
    (String::from_utf8(out.join().expect("stdout")).expect("text"), id)
}

/// The state is in the directory that the option `Root` names, in a subdirectory named after containerd's namespace.
fn root(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::created(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let place = bed.root().join("tests").join(task.id());
    assert!(place.join("record").exists());
    task.start("");
    task.finish();
    assert!(!place.exists());
}

fn no_new_keyring(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    for no_new_keyring in [false, true] {
        let options = Options { no_new_keyring, ..Options::default() };
        let (keys, id) = output(bed, "cat /proc/keys", options);
        assert_ne!(keys.contains(&format!("_ses.{id}:")), no_new_keyring, "{keys}");
    }
}

/// Without pivot_root(2), the host's tree stays below the container's root: once the container's root is unmounted, a
/// process that joins the mount namespace is in the host's tree.
fn no_pivot_root(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    for no_pivot_root in [false, true] {
        let options = Options { no_pivot_root, ..Options::default() };
        let task = created(bed.bundle().args(&["sleep", "1000"]).make(), options, None);
        task.start("");
        let pid = task.state().pid.to_string();
        let inside = |args: &[&str]| {
            let mut command = Command::new("nsenter");
            command.args(["--mount", "--target", &pid, "--"]).args(args).output().expect("nsenter")
        };
        let root = task.container.bundle.to_str().expect("path");
        assert!(!inside(&["test", "-e", root]).status.success(), "the host's tree is visible");
        let unmounted = inside(&["umount", "-l", "/"]);
        assert!(unmounted.status.success(), "{unmounted:?}");
        assert_eq!(inside(&["test", "-e", root]).status.success(), no_pivot_root);
        task.finish();
    }
}

fn shim_cgroup(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let name = format!("dayfly-test/shim-{}", bed.id());
    let directories: Vec<_> =
        cgroups::hierarchies(bed.view).into_iter().map(|hierarchy| hierarchy.join(&name)).collect();
    for directory in &directories {
        fs::create_dir_all(directory).expect("mkdir cgroup");
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (own, above) = (directory.join(file), directory.join("../..").join(file));
            if !bed.view.has_v1() || !own.exists() {
                continue;
            }
            let text = fs::read_to_string(above).expect("cpuset");
            fs::write(directory.join("..").join(file), &text).expect("cpuset");
            fs::write(own, text).expect("cpuset");
        }
    }
    let options = Options { shim_cgroup: format!("/{name}"), ..Options::default() };
    let task = created(bed.bundle().args(&["sleep", "1000"]).make(), options, None);
    task.start("");
    let own = fs::read_to_string(format!("/proc/{}/cgroup", task.shim.pid())).expect("cgroup");
    assert!(own.lines().any(|line| line.ends_with(&name)), "{own}");
    let pid = task.state().pid;
    let other = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
    assert!(!other.contains(&name), "the container is elsewhere: {other}");
    task.finish();
    for directory in &directories {
        wait::until_true("the cgroup to be empty", || fs::remove_dir(directory).is_ok());
    }
}

/// The option `BinaryName` is ignored, with a warning in containerd's log.
fn binary_name(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().args(&["sleep", "1000"]).make();
    let options = Options { binary_name: "/usr/bin/crun".into(), ..Options::default() };
    let shim = Shim::start_with(&container, options);
    let log = fs::File::options().read(true).write(true).open(container.bundle.join("log"));
    let request = creation(&container, None);
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let mut line = String::new();
    BufReader::new(log.expect("log")).read_line(&mut line).expect("read");
    assert!(line.contains("level=warning") && line.contains("BinaryName /usr/bin/crun"), "{line}");
    let task = Task { container, shim };
    task.start("");
    task.finish();
}

/// Containers with the same annotation share a shim; the first known annotation counts.
fn groups(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let program = program(bed).expect("shim");
    let events = Events::serve(&bed.dir);
    let (one, other) = (bed.id(), bed.id());
    let address = |annotations: serde_json::Value| {
        let container = bed.bundle().set("/annotations", annotations).make();
        boot(bed, &program, &container, &events, Options::default(), &[])
    };
    let first = address(json!({ "io.kubernetes.cri.sandbox-id": one }));
    let second = address(json!({ "io.kubernetes.cri.sandbox-id": one }));
    let third = address(json!({
        "io.kubernetes.cri.sandbox-id": other, "io.containerd.runc.v2.group": one,
    }));
    let apart = address(json!({ "io.kubernetes.cri.sandbox-id": other }));
    assert_eq!((&second, &third), (&first, &first));
    assert_ne!(apart, first);
    for address in [first, apart] {
        let shim = Line::to(&address);
        let request = ShutdownRequest { id: "any".into(), now: false };
        shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
        shim.wait_for_its_end();
    }
}

/// The task services v2 and v3 have the same calls. An empty request gets the same status code from both services, and
/// never the code for an unknown call.
fn all_calls_of_both_versions(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let mut answers = Vec::new();
    for method in Method::ALL.into_iter().filter(|method| *method != Method::Shutdown) {
        let code = |answer: Result<Vec<u8>, proto::ttrpc::Status>| match answer {
            Ok(_) => 0,
            Err(status) => status.code,
        };
        let third = task.shim.exchange(method, Vec::new()).expect("an answer");
        let second = task.shim.exchange_of(SERVICE_V2, method, Vec::new()).expect("an answer");
        let codes = [code(second), code(third)];
        assert_eq!(codes[0], codes[1], "{}", method.name());
        assert_ne!(codes[0], code::UNIMPLEMENTED, "{}", method.name());
        answers.push((method.name(), codes[0]));
    }
    println!("{answers:?}");
    let unknown = task.shim.exchange_of("containerd.task.v4.Task", Method::State, Vec::new());
    assert_eq!(unknown.expect("an answer").unwrap_err().code, code::UNIMPLEMENTED);
    let request = StateRequest { id: task.id(), ..StateRequest::default() }.encode();
    let state = task.shim.exchange_of(SERVICE_V2, Method::State, request).expect("an answer");
    let state = StateResponse::decode(&state.expect("state")).expect("answer");
    assert_eq!(state.status, status::RUNNING);
    task.finish();
}

/// The agent gets the listener of the container's filter, and of the filter of each exec.
fn seccomp_listener(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let agent = Agent::new(&bed.dir, |_| Answer::Return(0));
    let bundle = bed.bundle().set("/linux/seccomp", profile(agent.path(), &["mkdir", "mkdirat"]));
    let container =
        bundle.sh("mkdir /tmp/none; ls /tmp; echo end; echo >/ended; exec sleep 1000").make();
    let pipes = Pipes::new(&container, "init");
    let out = pipes.reader("stdout");
    let task = Task::started(container, Some(&pipes));
    assert_eq!(agent.message()["state"]["id"], task.id());
    task.exec("e", "mkdir /tmp/none && test ! -e /tmp/none", None);
    task.start("e");
    assert_eq!(task.wait("e"), 0, "nobody made it");
    assert_eq!(agent.message()["state"]["id"], task.id());
    let ended = task.container.bundle.join("rootfs/ended");
    wait::until_true("the program to print", || ended.exists());
    task.finish();
    assert_eq!(out.join().expect("stdout"), b"end\n");
}
