//! Attacks on the runtime's reads and writes below /proc and /sys, and on the mounts that cover them.

use super::pause::run_paused;
use super::{Evidence, attacks};
use crate::security::replace_by_link;
use dayfly_tests::bed::Bed;
use dayfly_tests::cgroups;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = attacks! {
    volume_over_proc without "proc-covers,verify-proc",
    volume_over_a_link_into_proc without "proc-covers",
    linked_proc_is_exchanged without "ordinary-proc" paused,
    linked_proc without "ordinary-proc",
    linked_sys without "ordinary-proc",
    sysctl_is_redirected without "verify-proc" paused,
    cgroup_of_the_host_is_writable without "cgroup-read-only",
};

/// A volume is mounted over /proc, and redirects a write of the runtime to one of its files. In the CVE the runtime
/// wrote a label; here it writes a sysctl.
fn volume_over_proc(bed: &Bed) -> Evidence {
    let volume = bed.dir.join("volume");
    let file = volume.join("sys/kernel/domainname");
    fs::create_dir_all(volume.join("sys/kernel")).expect("make");
    fs::write(&file, "").expect("write");
    let c = bed
        .bundle()
        .remount(
            "/proc",
            json!({
                "destination": "/proc", "type": "bind", "source": volume, "options": ["bind"],
            }),
        )
        .set("/linux/readonlyPaths", json!([]))
        .set("/linux/sysctl", json!({ "kernel.domainname": "hit" }))
        .args(&["/bin/true"])
        .make();
    let _ = c.run();
    let caught = fs::read_to_string(file).expect("read");
    (!caught.is_empty())
        .then(|| format!("the volume caught what was meant for the kernel: {caught}"))
}

/// A volume is mounted at a link of the image that leads to /proc or into it.
fn volume_over_a_link_into_proc(bed: &Bed) -> Evidence {
    let volume = bed.dir.join("volume");
    fs::create_dir_all(&volume).expect("make");
    fs::write(volume.join("mark"), "").expect("write");
    let targets =
        ["/proc", "../proc", "/proc/sys", "/proc/self/attr", "/proc/self/fd", "/proc/1/ns"];
    for target in targets {
        let bundle = bed.bundle();
        symlink(target, bundle.rootfs().join("link")).expect("link");
        let mount = json!({
            "destination": "/link", "type": "bind", "source": volume, "options": ["bind"],
        });
        let outcome = bundle.push("/mounts", mount).sh("ls /link/mark").make().run();
        if outcome.stdout.contains("mark") {
            return Some(format!("the volume is mounted at {target}"));
        }
    }
    None
}

/// /proc is a link into a volume. After proc is mounted at the link's target, another process with access to the volume
/// replaces that directory, so that the masks cover the replacement.
fn linked_proc_is_exchanged(bed: &Bed) -> Evidence {
    let volume = bed.dir.join("volume");
    fs::create_dir_all(volume.join("proc")).expect("make");
    let bundle = bed.bundle();
    replace_by_link(&bundle, "proc", Path::new("mnt/proc"));
    let volume_mount = json!({
        "destination": "/mnt", "type": "bind", "source": volume, "options": ["bind"],
    });
    let mut mounts = bundle.config["mounts"].as_array().expect("mounts").clone();
    mounts.insert(0, volume_mount);
    let script = "echo hit >/mnt/real/sys/kernel/domainname; cat /mnt/real/sys/kernel/domainname";
    let c = bundle.set("/mounts", json!(mounts)).sh(script).make();
    let outcome = run_paused(&c, "make read-only", || {
        fs::rename(volume.join("proc"), volume.join("real")).expect("rename");
        fs::create_dir(volume.join("proc")).expect("make");
    });
    outcome.stdout.contains("hit").then(|| format!("no mask covers proc: {}", outcome.stdout))
}

fn linked_proc(bed: &Bed) -> Evidence {
    linked(bed, "proc", "keys")
}

fn linked_sys(bed: &Bed) -> Evidence {
    linked(bed, "sys", "kernel")
}

/// Runs a container with a kernel file system whose mount point is a link in the image, and looks for the file system
/// at the link's target.
fn linked(bed: &Bed, name: &str, file: &str) -> Evidence {
    for target in ["/tmp", "tmp", "../../tmp"] {
        let bundle = bed.bundle();
        replace_by_link(&bundle, name, Path::new(target));
        let outcome = bundle.sh(&format!("ls -d /tmp/{file}")).make().run();
        if outcome.code() == 0 {
            return Some(format!("/{name} is mounted at {}", outcome.stdout));
        }
    }
    None
}

/// Before a sysctl is written, a process that can write to the rootfs replaces the tree at /proc. A link in the new
/// tree redirects the write to another kernel file.
fn sysctl_is_redirected(bed: &Bed) -> Evidence {
    let bundle = bed.bundle();
    let rootfs = bundle.rootfs();
    let c = bundle
        .set("/linux/readonlyPaths", json!([]))
        .set("/linux/sysctl", json!({ "kernel.domainname": "hit" }))
        .args(&["/bin/hostname"])
        .make();
    let outcome = run_paused(&c, "write sysctl", || {
        fs::rename(rootfs.join("proc"), rootfs.join("real")).expect("rename");
        fs::create_dir_all(rootfs.join("proc/sys/kernel")).expect("make");
        let link = rootfs.join("proc/sys/kernel/domainname");
        symlink("/real/sys/kernel/hostname", link).expect("link");
    });
    let hit = outcome.stdout.contains("hit");
    hit.then(|| format!("the domain name is written to the host name: {}", outcome.stdout))
}

/// Without a cgroup namespace, the container's mount shows the host's cgroup tree.
fn cgroup_of_the_host_is_writable(bed: &Bed) -> Evidence {
    // Tries to make a directory in the container's own cgroup, wherever it is visible, and in no other cgroup.
    let id = bed.id();
    let dirs = match bed.view.has_v1() {
        true => "/sys/fs/cgroup/*/".to_owned(),
        false => format!("/sys/fs/cgroup{}", cgroups::path_of(&id)),
    };
    let script = format!(
        "for d in {dirs}; do mkdir $d/hostile && rmdir $d/hostile && echo made in $d; done \
         2>/dev/null; true"
    );
    let outcome = bed.bundle().without_namespace("cgroup").sh(&script).make_as(&id).run().ok();
    (!outcome.stdout.is_empty()).then_some(outcome.stdout)
}
