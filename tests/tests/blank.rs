//! Fast and slow starts: the container is the same with every fast path, without each of them and
//! without any. Other cases test the mounts under a container's root, which covers the blank namespace.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::{case, cgroups, wait};
use serde_json::json;
use std::fs;
use std::os::unix::fs::chown;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(fast_paths_are_used_and_left_out).when(uses_every_fast_path).unlike_runc(),
    case!(masks_have_one_cover_or_each_its_own).unlike_runc(),
    case!(unknown_fast_path).unlike_runc(),
    case!(same_container_by_run),
    case!(same_container_by_create_and_start),
    case!(same_container_in_a_user_namespace),
    case!(same_container_on_a_root_that_propagates).unlike_runc(),
    case!(hooks_see_the_host),
    case!(root_can_not_be_left),
    case!(only_an_empty_root_is_behind_it).when(uses_every_fast_path).unlike_runc(),
    case!(blank_can_not_be_changed).when(uses_every_fast_path).unlike_runc(),
    case!(fresh_proc_with_sys_admin),
];

/// The fast paths, as `DAYFLY_WITHOUT` names them.
const FAST_PATHS: &[&str] = &[
    "clone-into-cgroup",
    "blank-namespace",
    "shared-memory",
    "parallel-network",
    "one-way-handshake",
    "seccomp-cache",
    "device-cache",
    "shared-masks",
    "thread-move",
    "kept-program",
];

/// Returns the ways of starting: with all fast paths, without each of them, and without any.
pub(crate) fn ways() -> Vec<String> {
    let one_off = FAST_PATHS.iter().map(|name| (*name).to_owned());
    std::iter::once(String::new()).chain(one_off).chain([FAST_PATHS.join(",")]).collect()
}

/// Disables the fast paths of `way` for a call.
pub(crate) fn without(call: Call, way: &str) -> Call {
    call.env("DAYFLY_WITHOUT", way)
}

pub(crate) fn with_capabilities<'a>(bundle: Bundle<'a>, more: &[&str]) -> Bundle<'a> {
    let all: Vec<&str> = dayfly_tests::bundle::CAPABILITIES.iter().chain(more).copied().collect();
    bundle.set(
        "/process/capabilities",
        json!({ "bounding": all, "effective": all, "permitted": all }),
    )
}

/// Waits until a start uses all fast paths, and returns the trace of that start: while one start makes the blank
/// namespace, others start without it.
fn await_all(bed: &Bed) -> String {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let mut trace = String::new();
    wait::until_true("a start that uses all", || {
        trace = c.bundle_call("run", &["--trace", "-"]).run().exits(0).stderr;
        trace.contains("enter root") && trace.contains("join network")
    });
    trace
}

fn fast_paths_are_used_and_left_out(bed: &Bed) {
    let every = await_all(bed);
    let c = bed.bundle().args(&["/bin/true"]).make();
    let call = c.bundle_call("run", &["--trace", "-"]);
    let none = without(call, &FAST_PATHS.join(",")).run().exits(0).stderr;
    for step in ["enter root", "in shared memory", "make network", "join network"] {
        assert!(every.contains(step) && !none.contains(step), "{step}:\n{every}\n{none}");
    }
    for step in ["pivot root", "await ready"] {
        assert!(!every.contains(step) && none.contains(step), "{step}:\n{every}\n{none}");
    }
}

fn masks_have_one_cover_or_each_its_own(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/linux/maskedPaths", json!(["/root", "/usr", "/var"]))
        .sh("stat -c %d /root /usr /var | sort -u | wc -l")
        .make();
    for (way, covers) in [("", "1\n"), ("shared-masks", "3\n")] {
        assert_eq!(without(c.bundle_call("run", &[]), way).run().ok().stdout, covers, "{way}");
    }
}

fn unknown_fast_path(bed: &Bed) {
    let c = bed.bundle().make();
    for verb in ["create", "run"] {
        let outcome = without(c.bundle_call(verb, &[]), "shared-memory,nonsense").run();
        let outcome = outcome.fails("DAYFLY_WITHOUT: \"nonsense\" is none of clone-into-cgroup, ");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
        assert!(!c.exists());
    }
}

/// Prints everything that a container sees of itself, without ids that change each time.
const REPORT: &str = r#"
    sed -e 's/^[0-9]* [0-9]* [^ ]* //' -e 's/\(shared\|master\|propagate_from\):[0-9]*/\1/g' \
        /proc/self/mountinfo | sort
    grep -E '^(Uid|Gid|Groups|Umask|Sig(Blk|Ign|Cgt)|Shd|Cap|NoNewPrivs|Seccomp|Cpus_a|Mems_a)' \
        /proc/self/status
    cat /proc/self/cgroup /proc/self/limits /proc/self/oom_score_adj /proc/self/coredump_filter
    cat /proc/self/uid_map /proc/self/personality /proc/self/timerslack_ns 2>/dev/null
    tr '\0' '\n' </proc/self/environ | sort
    cut -d' ' -f4-8 /proc/1/stat
    hostname; cat /proc/sys/kernel/domainname; pwd; umask
    ip addr; ls /sys/class/net /proc/sys/net/ipv4/conf; cat /proc/net/dev | cut -d: -f1
    cat /proc/sys/net/ipv4/ip_unprivileged_port_start
    ls -la /dev | sed 's/ [A-Z][a-z][a-z] .*:[0-9]* / /'
    cat /proc/keys; ls -a /proc/acpi /sys/firmware /sys/dev/block
    for f in /proc/sys/kernel/panic /proc/sysrq-trigger /sys/dev/block/x /proc/keys; do
        echo x >$f; echo "$f $?"
    done 2>&1
    mknod /tmp/disk b 7 0; head -c 1 /tmp/disk; echo "open $?"; rm /tmp/disk
    head -c 1 /dev/zero | wc -c
    echo END
"#;

/// Returns a container with every property that a start can set up in more than one way.
pub(crate) fn rich(bundle: Bundle<'_>) -> Bundle<'_> {
    with_capabilities(bundle, &["CAP_MKNOD"])
        .set(
            "/linux/seccomp",
            json!({
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{ "names": ["sync"], "action": "SCMP_ACT_ERRNO", "errnoRet": 99 }],
            }),
        )
        .set("/linux/resources", json!({ "devices": [{ "allow": false, "access": "rwm" }] }))
        .set("/linux/sysctl", json!({ "net.ipv4.ip_unprivileged_port_start": "81" }))
        .set("/process/oomScoreAdj", json!(321))
        .set("/domainname", json!("example"))
        .set("/process/cwd", json!("/var/made"))
        .mount("tmpfs", "tmpfs", "/mnt", &["tmpcopyup", "mode=700"])
        .sh(&format!("{{ {REPORT} }} 2>&1; exec sleep 1000"))
}

/// Asserts that all ways of starting produce the same container, seen from inside and from the host.
#[track_caller]
fn assert_same(c: &Container<'_>, verbs: &[&str]) {
    let mut first = String::new();
    for way in ways() {
        let made = without(c.bundle_call(verbs[0], &verbs[1..]), &way).run().ok();
        if verbs[0] == "create" {
            c.start().ok();
        }
        let mut report = made.wait_output("\nEND\n");
        let pid = c.pid();
        for kind in ["mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("link");
            assert_ne!(link(&pid.to_string()), link("self"), "without {way}: {kind}");
        }
        report += &fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
        let path = cgroups::path_of(&c.id);
        assert!(report.ends_with(&format!("{path}\n")) || report.contains(&format!(":{path}\n")));
        report += &c.exec(&["grep", "Seccomp\\|Cap", "/proc/self/status"]).ok().stdout;
        report += &c.sh("tail -n +2 /proc/net/dev | cut -d: -f1; hostname; ls /").ok().stdout;
        c.delete_force().ok();
        if first.is_empty() {
            first.clone_from(&report);
        }
        assert!(first == report, "without {way}:\n{}", difference(&first, &report));
    }
    for line in ["Seccomp:\t2", "oom", "open 1", "example", "/var/made", "LOOPBACK,UP", "81"] {
        let line = if line == "oom" { "\n321\n" } else { line };
        assert!(first.contains(line), "{line:?} missing:\n{first}");
    }
}

/// Returns the lines that only one of the two texts contains.
fn difference(first: &str, second: &str) -> String {
    let only = |one: &str, other: &str, mark: char| -> String {
        one.lines()
            .filter(|line| !other.lines().any(|there| there == *line))
            .map(|line| format!("{mark} {line}\n"))
            .collect()
    };
    only(first, second, '-') + &only(second, first, '+')
}

fn same_container_by_run(bed: &Bed) {
    assert_same(&rich(bed.bundle()).make(), &["run", "--detach"]);
}

fn same_container_by_create_and_start(bed: &Bed) {
    assert_same(&rich(bed.bundle()).make(), &["create"]);
}

fn mapped(bundle: Bundle<'_>) -> Bundle<'_> {
    let rootfs = bundle.rootfs();
    for name in ["", "tmp", "mnt", "var", "root"] {
        chown(rootfs.join(name), Some(100_000), Some(100_000)).expect("chown");
    }
    let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]);
    bundle
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", map.clone())
        .set("/linux/gidMappings", map)
}

fn same_container_in_a_user_namespace(bed: &Bed) {
    assert_same(&mapped(rich(bed.bundle())).make(), &["run", "--detach"]);
}

fn same_container_on_a_root_that_propagates(bed: &Bed) {
    // The root is a separate mount. As with runc, it is no slave of the host's: only a bind mount can be one.
    for (name, tag) in
        [("rshared", " shared"), ("rslave", " / rw,relatime - "), ("rprivate", " / rw,relatime - ")]
    {
        let bundle = rich(bed.bundle()).set("/linux/rootfsPropagation", json!(name));
        let rootfs = bundle.rootfs();
        let rootfs = rootfs.to_str().expect("path");
        for args in [&["--bind", rootfs, rootfs][..], &["--make-rshared", rootfs]] {
            bed.program("mount", args).run().ok();
        }
        let c = bundle.make();
        assert_same(&c, &["run", "--detach"]);
        for way in ways() {
            without(c.bundle_call("run", &["--detach"]), &way).run().ok();
            let table = fs::read_to_string(format!("/proc/{}/mountinfo", c.pid())).expect("table");
            let root = table.lines().find(|line| line.contains(" / rw")).unwrap_or_default();
            assert!(root.contains(tag), "{name} without {way}: {table}");
            c.delete_force().ok();
        }
        bed.program("umount", &["-l", rootfs]).run().ok();
    }
}

fn hooks_see_the_host(bed: &Bed) {
    let dir = bed.dir.join("journal");
    fs::create_dir(&dir).expect("make journal");
    let journal = dir.to_str().expect("path").to_owned();
    let mut bundle = bed.bundle().mount("bind", &journal, &journal, &["bind"]);
    let rootfs = bundle.rootfs();
    let rootfs = rootfs.display();
    for kind in ["prestart", "createRuntime", "createContainer", "poststart"] {
        // Prints the rootfs at its path in the bundle, whether the container's mounts are on it, and which of the
        // host's files are visible.
        let script = format!(
            "exec >{journal}/{kind} 2>&1; ls {rootfs}; test -e {rootfs}/proc/self && echo mounted;
             ls {rootfs}/../config.json; readlink /proc/self/ns/mnt; cat >/dev/null"
        );
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
        bundle = bundle.push(&format!("/hooks/{kind}"), hook);
    }
    let config = format!("{rootfs}/../config.json");
    let c = bundle.make();
    let own = fs::read_link("/proc/self/ns/mnt").expect("link").to_string_lossy().into_owned();
    for way in ways() {
        without(c.bundle_call("create", &[]), &way).run().ok();
        c.start().ok();
        for kind in ["prestart", "createRuntime", "createContainer", "poststart"] {
            let text = fs::read_to_string(dir.join(kind)).expect("journal");
            let lines: Vec<&str> = text.lines().collect();
            for seen in ["bin", "etc", &config] {
                assert!(lines.contains(&seen), "{kind} without {way}: {text}");
            }
            // createContainer hooks run before the old root is unmounted, so they see both the host's mounts and the
            // container's.
            let inside = kind == "createContainer";
            assert_eq!(lines.contains(&"mounted"), inside, "{kind} without {way}: {text}");
            assert_eq!(!lines.contains(&own.as_str()), inside, "{kind} without {way}: {text}");
        }
        c.delete_force().ok();
    }
}

/// The capabilities that allow a container to leave its root, as far as the kernel allows that at all.
const LEAVERS: &[&str] = &["CAP_SYS_ADMIN", "CAP_SYS_PTRACE"];

fn root_can_not_be_left(bed: &Bed) {
    // nsenter -r -w calls chroot(2), but keeps a working directory outside the new root.
    let script = "touch /mine; mkdir /tmp/jail
        nsenter -r/tmp/jail -w/ ./bin/busybox sh -c 'cd ../../../../..; ./bin/busybox ls -A'
        nsenter -r/tmp/jail -w/bin ./busybox sh -c 'cd ..; cd ..; ./bin/busybox ls -A'
        ls -A /.. /../.. /proc/self/root/.. /proc/1/root/../.. /proc/1/cwd/../..
        nsenter -t 1 -m ls -A /; nsenter -m/proc/self/ns/mnt ls -A /..
        unshare -m ls -A /..; unshare -m nsenter -t 1 -m ls -A /
        ls /proc/1/root/proc/1/root/..";
    let c = with_capabilities(bed.bundle(), LEAVERS).sh(script).make();
    let own: Vec<String> = fs::read_dir(c.bundle.join("rootfs"))
        .expect("rootfs")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .chain(["mine".to_owned()])
        .collect();
    for way in ways() {
        let outcome = without(c.bundle_call("run", &[]), &way).run();
        let seen: Vec<&str> = outcome
            .lines()
            .into_iter()
            .filter(|line| !line.is_empty() && !line.ends_with(':'))
            .collect();
        for name in &seen {
            assert!(own.iter().any(|own| own == name), "without {way}: {name}: {outcome}");
        }
        let roots = seen.iter().filter(|name| **name == "mine").count();
        assert_eq!(roots, 12, "without {way}: {outcome}");
        fs::remove_dir(c.bundle.join("rootfs/tmp/jail")).expect("remove");
    }
}

/// Returns a script that unmounts the root, and then runs `then` at the root that remains. Busybox is in the working
/// directory.
fn behind_the_root(then: &str) -> String {
    format!(
        "cd /proc; umount -l / || exit 9
         nsenter -m./self/ns/mnt -w/bin ./busybox sh -c '{then}' 2>&1"
    )
}

fn only_an_empty_root_is_behind_it(bed: &Bed) {
    let look = behind_the_root(
        "./busybox ls -A / /..; ./busybox touch /made || ./busybox mkdir /made || echo refused
         ./busybox stat -f -c %T /; ./busybox ls -A /",
    );
    let c = with_capabilities(bed.bundle(), LEAVERS).sh(&look).make();
    await_all(bed);
    for way in ways().iter().filter(|way| !way.contains("blank-namespace")) {
        let outcome = without(c.bundle_call("run", &[]), way).run().ok();
        let said: Vec<&str> =
            outcome.lines().into_iter().filter(|line| !line.contains("Read-only")).collect();
        assert_eq!(said, ["/:", "", "/..:", "refused", "tmpfs"], "without {way}: {outcome}");
    }
}

fn blank_can_not_be_changed(bed: &Bed) {
    // All containers share the blank namespace's file system; the mount below it is the kernel's initial root.
    let change = behind_the_root(
        "./busybox mount -o remount,rw dayfly / && echo writable
         ./busybox mount -o remount,bind,rw dayfly / && echo writable
         ./busybox mkdir /made && ./busybox rmdir /made && echo made
         ./busybox umount -l / && echo off",
    );
    let c = with_capabilities(bed.bundle(), LEAVERS).sh(&format!("{change}; true")).make();
    await_all(bed);
    let outcome = c.run().ok();
    for word in ["writable", "made", "off"] {
        assert!(!outcome.lines().contains(&word), "{word}: {outcome}");
    }
}

fn fresh_proc_with_sys_admin(bed: &Bed) {
    // A process with CAP_SYS_ADMIN over the mount namespace can remove masks by umount(2), and perhaps by mounting a
    // new proc. This is the same with runc. No way of starting may give more access than another.
    let script = "mount -t proc proc /mnt; echo $?; umount -l /proc/keys; echo $?";
    let bare = || with_capabilities(bed.bundle(), &["CAP_SYS_ADMIN"]).sh(script);
    for (bundle, expected) in [(bare(), Some("0\n0\n")), (mapped(bare()), None)] {
        let c = bundle.make();
        let answer = |way: &str| without(c.bundle_call("run", &[]), way).run().ok().stdout;
        let first = answer("");
        assert_eq!(first, expected.unwrap_or(&first));
        for way in ways() {
            assert_eq!(answer(&way), first, "without {way}");
        }
    }
}
