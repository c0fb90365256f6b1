//! A container joins a user namespace and a second namespace. The owner of the second one is the host's user namespace,
//! another container's, or the user namespace that is joined.

use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{User, can_be};
use rustix::process::getpid;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(new_and_of_the_host),
    case!(new_and_of_another),
    case!(joined_and_of_the_host),
    case!(joined_and_its_own),
    case!(joined_and_of_another),
    case!(several_at_once),
    case!(caller_comes_back),
    case!(in_a_nested_user_namespace).needs(can_be).unlike_runc(),
];

/// The names in config.json and in /proc/PID/ns.
const KINDS: [(&str, &str); 6] = [
    ("network", "net"),
    ("ipc", "ipc"),
    ("uts", "uts"),
    ("cgroup", "cgroup"),
    ("pid", "pid"),
    ("time", "time"),
];

fn path(pid: i32, file: &str) -> String {
    format!("/proc/{pid}/ns/{file}")
}

/// Starts the container that owns the namespaces; it also has a time namespace.
fn owner(bundle: Bundle<'_>) -> Container<'_> {
    bundle.push("/linux/namespaces", json!({ "type": "time" })).make().detached()
}

/// Removes the mounts that require the container's user namespace to own the joined namespace.
fn without_mounts_of<'a>(mut bundle: Bundle<'a>, kind: &str) -> Bundle<'a> {
    let place = match kind {
        "network" => "/sys",
        "ipc" => "/dev/mqueue",
        "cgroup" => "/sys/fs/cgroup",
        "pid" => {
            let mount = json!({ "destination": "/proc", "type": "bind", "source": "/proc",
                "options": ["rbind"] });
            return bundle.remount("/proc", mount);
        }
        _ => return bundle,
    };
    let below = format!("{place}/");
    bundle.config["mounts"].as_array_mut().expect("mounts").retain(|mount| {
        let at = mount["destination"].as_str().expect("destination");
        at != place && !at.starts_with(&below)
    });
    bundle
}

/// Asserts that a container in a user namespace can join the namespace `kind` of the process `owner`, and is then in
/// both namespaces.
#[track_caller]
fn joins(bundle: Bundle<'_>, kind: (&str, &str), owner: i32, is_its_own: bool) {
    let (name, file) = kind;
    let mut bundle = bundle.join_namespace(name, &path(owner, file));
    if !is_its_own {
        bundle = without_mounts_of(bundle, name);
    }
    if name == "uts" {
        bundle = bundle.unset("/hostname");
    }
    let c = bundle.make().detached();
    let of = |pid: i32, file| fs::read_link(path(pid, file)).expect("namespace");
    assert_eq!(of(c.pid(), file), of(owner, file), "{name}");
    assert_ne!(of(c.pid(), "user"), of(getpid().as_raw_nonzero().get(), "user"), "{name}");
    let seen = c.exec(&["readlink", &format!("/proc/self/ns/{file}")]).ok().stdout;
    assert_eq!(seen.trim(), of(owner, file).to_string_lossy(), "{name}");
    c.delete_force().ok();
}

/// Returns a bundle that joins the user namespace of a process.
fn joining<'a>(bed: &'a Bed, pid: i32) -> Bundle<'a> {
    mapped(bed)
        .join_namespace("user", &path(pid, "user"))
        .unset("/linux/uidMappings")
        .unset("/linux/gidMappings")
}

fn new_and_of_the_host(bed: &Bed) {
    let first = owner(bed.bundle());
    KINDS.into_iter().for_each(|kind| joins(mapped(bed), kind, first.pid(), false));
}

fn new_and_of_another(bed: &Bed) {
    let first = owner(mapped(bed));
    KINDS.into_iter().for_each(|kind| joins(mapped(bed), kind, first.pid(), false));
}

fn joined_and_of_the_host(bed: &Bed) {
    let (first, user) = (owner(bed.bundle()), owner(mapped(bed)));
    KINDS.into_iter().for_each(|kind| joins(joining(bed, user.pid()), kind, first.pid(), false));
}

fn joined_and_its_own(bed: &Bed) {
    let first = owner(mapped(bed));
    KINDS.into_iter().for_each(|kind| joins(joining(bed, first.pid()), kind, first.pid(), true));
}

fn joined_and_of_another(bed: &Bed) {
    let (first, user) = (owner(mapped(bed)), owner(mapped(bed)));
    KINDS.into_iter().for_each(|kind| joins(joining(bed, user.pid()), kind, first.pid(), false));
}

fn several_at_once(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let mut bundle = mapped(bed).unset("/hostname");
    for (name, file) in &KINDS[..5] {
        bundle = bundle.join_namespace(name, &path(first.pid(), file));
        bundle = without_mounts_of(bundle, name);
    }
    let second = bundle.make().detached();
    for (name, file) in &KINDS[..5] {
        let of = |pid: i32| fs::read_link(path(pid, file)).expect("namespace");
        assert_eq!(of(second.pid()), of(first.pid()), "{name}");
    }
    second.exec(&["true"]).ok();
}

/// Poststart hooks run in the host's namespaces, even if the container joins existing ones.
fn caller_comes_back(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let out = bed.dir.join("hook");
    let script = format!("readlink /proc/self/ns/net /proc/self/ns/uts >{}", out.display());
    let bundle = mapped(bed)
        .join_namespace("network", &path(first.pid(), "net"))
        .join_namespace("uts", &path(first.pid(), "uts"))
        .unset("/hostname")
        .set("/hooks/poststart", json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }]));
    without_mounts_of(bundle, "network").args(&["/bin/true"]).make().run().ok();
    let own = ["net", "uts"].map(|file| {
        let link = fs::read_link(format!("/proc/self/ns/{file}")).expect("namespace");
        format!("{}\n", link.display())
    });
    assert_eq!(fs::read_to_string(out).expect("hook"), own.concat());
}

/// Root of a user namespace that another user made can't return to a namespace that it does not own. So a separate
/// process enters the namespace that the container joins.
fn in_a_nested_user_namespace(bed: &Bed) {
    let user = User::nested(bed);
    let first = user.plain().make().detached();
    let map: Value = json!([
        { "containerID": 0, "hostID": 0, "size": 1 },
        { "containerID": 1, "hostID": 1, "size": 1000 },
    ]);
    for (name, file) in &KINDS[..3] {
        let bundle = user
            .plain()
            .push("/linux/namespaces", json!({ "type": "user" }))
            .set("/linux/uidMappings", map.clone())
            .set("/linux/gidMappings", map.clone())
            .join_namespace(name, &path(first.pid(), file))
            .unset("/hostname");
        let second = without_mounts_of(bundle, name).make().detached();
        let of = |pid: i32| fs::read_link(path(pid, file)).expect("namespace");
        assert_eq!(of(second.pid()), of(first.pid()), "{name}");
        second.exec(&["true"]).ok();
    }
}
