//! dayfly under a seccomp filter that denies newer system calls, as in a container of an older host. dayfly uses
//! alternatives where they exist; where none exists, the error names the denied call.

use crate::binds::{host_dir, text};
use crate::exec::cgroup::{exec_joins, huge_pages, with_init_below};
use crate::listener::profile;
use crate::userns::mapped;
use dayfly_tests::agent::Agent;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::victim::Victim;
use dayfly_tests::view::View;
use rustix::io::Errno;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use sys::unotify::Answer;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(openat2_starts).unlike_runc(),
    case!(openat2_keeps_links_inside).unlike_runc(),
    case!(openat2_still_refuses).unlike_runc(),
    case!(openat2_of_sysctls).unlike_runc(),
    case!(openat2_of_create_and_exec).unlike_runc(),
    case!(clone3_starts).unlike_runc(),
    case!(clone3_of_create_and_exec).unlike_runc(),
    case!(clone3_in_its_cgroup).unlike_runc(),
    case!(clone3_below_its_cgroup).on(&[View::V2]).when(huge_pages).unlike_runc(),
    case!(clone3_with_one_process_allowed).when(limits_pids).unlike_runc(),
    case!(clone3_with_an_agent).unlike_runc(),
    case!(mounts_by_descriptor_are_needed).unlike_runc(),
    case!(genuine_errors_stay_as_they_are).unlike_runc(),
];

const REFUSALS: [Errno; 2] = [Errno::NOSYS, Errno::PERM];

/// The ways of starting: with every fast path, and without the fast paths that the filter affects.
const WAYS: [&str; 2] = ["", "clone-into-cgroup,blank-namespace,shared-memory,parallel-network"];

fn run(c: &Container<'_>, call: &str, errno: Errno) -> Outcome {
    c.bundle_call("run", &[]).refused(call, errno).run()
}

/// Returns a bundle with mounts, devices, links, masks, missing mount points and links to mount points.
fn with_much<'a>(bed: &'a Bed, dir: &std::path::Path) -> Bundle<'a> {
    let bundle = bed.bundle();
    symlink("../run/systemd/resolve/stub.conf", bundle.rootfs().join("etc/resolv.conf"))
        .expect("link");
    symlink("/mnt", bundle.rootfs().join("way")).expect("link");
    let file = dir.join("inside");
    bundle
        .mount("bind", text(dir), "/way/of/it", &["bind", "ro"])
        .mount("bind", text(&file), "/etc/resolv.conf", &["bind"])
        .mount("tmpfs", "tmpfs", "/new/scratch", &["mode=755", "ro"])
        .mount("tmpfs", "tmpfs", "/new/scratch", &["remount", "size=1m"])
        .push(
            "/linux/devices",
            json!({ "path": "/dev/deep/er", "type": "c", "major": 1, "minor": 3 }),
        )
        .push("/linux/maskedPaths", json!("/way/of"))
        .set("/process/cwd", json!("/work/place"))
        .sh("cat /run/systemd/resolve/stub.conf; ls /mnt/of; test -c /dev/deep/er && pwd; \
             readlink /dev/fd; touch /new/scratch/x 2>/dev/null || echo refused; hostname")
}

const MUCH: &str = "shared\n/work/place\n/proc/self/fd\nrefused\ndayfly-test\n";

fn openat2_starts(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    for errno in REFUSALS {
        for way in WAYS {
            let c = with_much(bed, &dir).make();
            let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way);
            let outcome = call.refused("openat2", errno).run().ok();
            assert_eq!(outcome.stdout, MUCH, "{errno:?} {way:?}");
        }
        let c = mapped(bed)
            .mount("bind", text(&dir), "/made/for/it", &["bind"])
            .args(&["/bin/cat", "/made/for/it/inside"])
            .make();
        assert_eq!(run(&c, "openat2", errno).ok().stdout, "shared\n");
    }
}

fn openat2_keeps_links_inside(bed: &Bed) {
    let victim = Victim::new(bed);
    for errno in REFUSALS {
        for target in [victim.dir.clone(), victim.climbing()] {
            let bundle = bed.bundle();
            symlink(&target, bundle.rootfs().join("out")).expect("link");
            symlink(target.join("made"), bundle.rootfs().join("file")).expect("link");
            let c = bundle
                .mount("tmpfs", "tmpfs", "/out/new", &[])
                .mount("bind", "/etc/hostname", "/file", &["bind"])
                .set("/linux/maskedPaths", json!(["/out"]))
                .set("/process/cwd", json!("/out/cwd"))
                .args(&["/bin/true"])
                .make();
            let _ = c.bundle_call("run", &[]).refused("openat2", errno).run();
            victim.assert_untouched();
        }
    }
}

fn openat2_still_refuses(bed: &Bed) {
    let loops = bed.bundle();
    symlink("circle", loops.rootfs().join("circle")).expect("link");
    let loops = loops.mount("bind", "/etc", "/circle", &["bind"]).make();
    run(&loops, "openat2", Errno::NOSYS).fails("too many levels of symbolic links");
    let proc = bed.bundle();
    let _ = fs::remove_dir(proc.rootfs().join("proc"));
    symlink("tmp", proc.rootfs().join("proc")).expect("link");
    let outcome = run(&proc.make(), "openat2", Errno::NOSYS);
    outcome.fails("must be mounted on ordinary directory");
    let cwd = bed.bundle().set("/process/cwd", json!("/proc/self/fd/7")).make();
    let _ = run(&cwd, "openat2", Errno::NOSYS).exits(1);
}

fn openat2_of_sysctls(bed: &Bed) {
    for errno in REFUSALS {
        let c = bed
            .bundle()
            .set("/linux/sysctl", json!({ "kernel.msgmax": "4099", "net.ipv4.ip_forward": "1" }))
            .sh("cat /proc/sys/kernel/msgmax /proc/sys/net/ipv4/ip_forward")
            .make();
        assert_eq!(run(&c, "openat2", errno).ok().stdout, "4099\n1\n");
    }
}

/// Runs the commands of a container's life cycle, each under the filter.
fn life(bed: &Bed, name: &str, errno: Errno) {
    let c = bed.bundle().set("/root/readonly", json!(true)).make();
    let refused = |call: Call| call.refused(name, errno).run();
    let create = c.bundle_call("create", &[]);
    let _ = refused(create).ok();
    assert_eq!(c.status(), "created");
    let _ = refused(c.id_call("start", &[], &[])).ok();
    let exec = refused(c.id_call(
        "exec",
        &[],
        &["/bin/sh", "-c", "hostname; grep -c . /proc/self/cgroup"],
    ));
    assert!(exec.ok().stdout.starts_with("dayfly-test\n"));
    let _ = refused(c.id_call("kill", &[], &["KILL"])).ok();
    c.wait_status("stopped");
    let _ = refused(c.id_call("delete", &[], &[])).ok();
}

fn openat2_of_create_and_exec(bed: &Bed) {
    for errno in REFUSALS {
        life(bed, "openat2", errno);
    }
}

fn clone3_starts(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    for errno in REFUSALS {
        for way in WAYS {
            let c = with_much(bed, &dir).make();
            let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way);
            assert_eq!(call.refused("clone3", errno).run().ok().stdout, MUCH, "{errno:?} {way:?}");
        }
        let c = mapped(bed).args(&["/bin/hostname"]).make();
        assert_eq!(run(&c, "clone3", errno).ok().stdout, "dayfly-test\n");
        let hook = json!([{ "path": "/bin/true" }]);
        let c = bed.bundle().set("/hooks/prestart", hook).args(&["/bin/hostname"]).make();
        assert_eq!(run(&c, "clone3", errno).ok().stdout, "dayfly-test\n");
    }
}

fn clone3_of_create_and_exec(bed: &Bed) {
    for errno in REFUSALS {
        life(bed, "clone3", errno);
    }
}

/// clone(2) can't place a child in a cgroup: init must have moved into its cgroup before its cgroup namespace is
/// created.
fn clone3_in_its_cgroup(bed: &Bed) {
    let script = "cat /proc/self/cgroup";
    let expected = bed.bundle().sh(script).make().run().ok().stdout;
    for errno in REFUSALS {
        let c = bed.bundle().sh(script).make();
        assert_eq!(run(&c, "clone3", errno).ok().stdout, expected);
    }
}

/// Like init, the process of an exec must move itself, because clone(2) can't place it in init's cgroup. Here the
/// container's own cgroup delegates controllers, so it can't contain processes.
fn clone3_below_its_cgroup(bed: &Bed) {
    for bundle in [bed.bundle(), bed.bundle().without_namespace("pid"), mapped(bed)] {
        let (c, path) = with_init_below(bundle);
        for errno in REFUSALS {
            exec_joins(&c, &path, |call| call.refused("clone3", errno));
        }
    }
}

fn limits_pids() -> bool {
    let v2 = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").ok();
    v2.is_none_or(|have| have.split_whitespace().any(|name| name == "pids"))
}

/// Moving into a cgroup is not checked against pids.max, but the limit does not allow an additional intermediate
/// process.
fn clone3_with_one_process_allowed(bed: &Bed) {
    let limit = || json!({ "limit": 1 });
    for errno in REFUSALS {
        for bundle in [bed.bundle(), mapped(bed)] {
            let bundle = bundle.set("/linux/resources/pids", limit());
            let c = bundle.args(&["/bin/hostname"]).make();
            assert_eq!(run(&c, "clone3", errno).ok().stdout, "dayfly-test\n");
        }
        for (pod, kinds) in [(bed.bundle(), &["pid"][..]), (mapped(bed), &["user", "pid"])] {
            let pod = pod.make().detached();
            let mut member = match kinds.contains(&"user") {
                true => mapped(bed).unset("/linux/uidMappings").unset("/linux/gidMappings"),
                false => bed.bundle(),
            };
            for kind in kinds {
                member = member.join_namespace(kind, &format!("/proc/{}/ns/{kind}", pod.pid()));
            }
            let member = member.set("/linux/resources/pids", limit()).args(&["/bin/hostname"]);
            assert_eq!(run(&member.make(), "clone3", errno).ok().stdout, "dayfly-test\n");
        }
    }
}

/// The filter has a listener, and the container has hooks of every kind.
fn clone3_with_an_agent(bed: &Bed) {
    let agent = Agent::new(&bed.dir, |_| Answer::Fail(sys::Errno::NOMEDIUM));
    for errno in REFUSALS {
        for bundle in [bed.bundle(), mapped(bed)] {
            let hook = json!([{ "path": "/bin/true" }]);
            let kinds = ["prestart", "createRuntime", "createContainer", "startContainer"];
            let bundle = kinds
                .iter()
                .fold(bundle, |bundle, kind| bundle.set(&format!("/hooks/{kind}"), hook.clone()));
            let profile = profile(agent.path(), &["mkdir", "mkdirat"]);
            let c = bundle.set("/linux/seccomp", profile).sh("mkdir /tmp/d").make();
            let outcome = run(&c, "clone3", errno).exits(1);
            assert!(outcome.stderr.contains("No medium found"), "{outcome}");
        }
    }
}

fn mounts_by_descriptor_are_needed(bed: &Bed) {
    for call in ["open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "mount_setattr"] {
        for errno in REFUSALS {
            let c = bed.bundle().args(&["/bin/true"]).make();
            let outcome = run(&c, call, errno).fails_once(1, &format!("{call}(2)"));
            assert!(outcome.stderr.contains("seccomp=unconfined"), "{outcome}");
            assert!(outcome.stderr.contains("seccomp filter"), "{outcome}");
            c.id_call("state", &[], &[]).run().fails("does not exist");
        }
    }
}

/// Not every EPERM comes from a filter.
fn genuine_errors_stay_as_they_are(bed: &Bed) {
    let c = bed.bundle().mount("bind", "/no/such", "/mnt", &["bind"]).make();
    let outcome = run(&c, "openat2", Errno::NOSYS).fails("no such file or directory");
    assert!(!outcome.stderr.contains("seccomp"), "{outcome}");
}
