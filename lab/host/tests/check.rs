//! The verdicts on other hosts, with various kernels and settings: the hosts of the articles on mount lock contention
//! ("Mount Mayhem at Netflix") and on consolidation (Red Hat's "Resource Management using Control Groups").

#[path = "../../../lib/topology/tests/common/mod.rs"]
mod common;

use common::Sysroot;
use dayfly_host::check::look;
use dayfly_host::check::verdict::{Level, Verdict, worst};
use dayfly_host::dynmods::State;
use dayfly_host::facts::Facts;
use dayfly_host::layout::Layout;

/// The mount table of a host with systemd and cgroup2.
const V2: &str = "\
21 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
22 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw
30 21 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot";

/// The mount table of a host with v1 hierarchies, as in the article on consolidation.
const V1: &str = "\
21 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 21 0:26 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw shared:12 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/blkio rw shared:13 - cgroup cgroup rw,blkio
35 30 0:31 / /sys/fs/cgroup/pids rw shared:14 - cgroup cgroup rw,pids";

/// Returns a host with this topology, kernel and mount table.
fn host(topology: &str, release: &str, mounts: &str) -> Sysroot {
    let sysroot = Sysroot::of(topology);
    sysroot.put("proc/sys/kernel/osrelease", release).put("proc/self/mountinfo", mounts);
    sysroot
}

/// Returns a host without problems, which tests then modify.
fn good() -> Sysroot {
    let sysroot = host("chiplets", "6.17.0", V2);
    let controllers = "cpuset cpu io memory pids";
    let files = [
        ("sys/fs/cgroup/cgroup.controllers", controllers),
        ("sys/fs/cgroup/cgroup.subtree_control", controllers),
        ("sys/kernel/cgroup/features", "nsdelegate\nfavordynmods\nmemory_localevents"),
        ("proc/sys/net/core/bpf_jit_enable", "1"),
        ("proc/sys/net/core/bpf_jit_harden", "0"),
        ("sys/module/apparmor/parameters/enabled", "Y"),
        ("etc/subuid", "containers:1000000:65536000"),
        ("etc/subgid", "containers:1000000:65536000"),
        ("proc/sys/kernel/pid_max", "4194304"),
        ("proc/sys/kernel/threads-max", "1546087"),
        ("proc/sys/fs/mount-max", "100000"),
        ("proc/sys/fs/inotify/max_user_instances", "8192"),
        ("proc/sys/fs/inotify/max_user_watches", "524288"),
        ("proc/sys/fs/file-max", "9223372036854775807"),
        ("proc/sys/kernel/keys/root_maxkeys", "1000000"),
        ("proc/sys/kernel/keys/maxkeys", "200"),
        (
            "proc/self/limits",
            "Max open files            1024                 524288               files",
        ),
    ];
    for (file, content) in files {
        sysroot.put(file, content);
    }
    for kind in ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"] {
        sysroot.put(&format!("proc/sys/user/max_{kind}_namespaces"), "773043");
        sysroot.put(&format!("proc/self/ns/{kind}"), "");
    }
    sysroot
}

fn verdicts(sysroot: &Sysroot) -> Vec<Verdict> {
    let facts = Facts::of(Some(&sysroot.path)).expect("facts");
    look(&facts, true).expect("sections").into_iter().flat_map(|section| section.verdicts).collect()
}

/// Returns the verdict with this id: its level, its fact, the fact's effect, and the advice.
fn verdict(sysroot: &Sysroot, id: &str) -> (Level, String, String, String) {
    let verdict = verdicts(sysroot).into_iter().find(|verdict| verdict.id == id);
    let Verdict { level, fact, why, fix, .. } = verdict.expect(id);
    (level, fact, why, fix.join("; "))
}

#[track_caller]
fn says(sysroot: &Sysroot, id: &str, level: Level, fact: &str, why: &str, fix: &str) {
    let said = verdict(sysroot, id);
    let expected = (level, fact.to_owned(), why.to_owned(), fix.to_owned());
    assert_eq!(said, expected);
}

#[test]
fn two_sockets_of_seed_001() {
    let host = host("two-socket-smt", "5.15.0-1031-aws", V2);
    says(
        &host,
        "machine.numa",
        Level::Warning,
        "2 nodes, 48 CPUs each, distance 21",
        "the mount lock moves between sockets: on two sockets, starts failed from about 100 at once",
        "dayfly run --start-cpus node:0,no-smt …",
    );
    says(
        &host,
        "machine.smt",
        Level::Warning,
        "96 on 48 cores, SMT on",
        "two spinning threads share a core: without SMT, many starts at once took 20-30 % less time",
        "",
    );
    says(
        &host,
        "machine.caches",
        Level::Note,
        "one of 35 MiB a socket, 48 CPUs",
        "all waiters of a lock queue at one cache: keep fewer starts in flight than on chiplets",
        "dayfly host locks tells how many",
    );
    says(
        &host,
        "kernel.layers",
        Level::Warning,
        "copied where ids differ",
        "overlayfs does not support id-mapped layers here",
        "boot Linux 5.19 or newer",
    );
}

#[test]
fn one_socket_with_a_mesh() {
    let host = host("mesh-smt", "6.8.0", V2);
    says(
        &host,
        "machine.numa",
        Level::Good,
        "1 node, 48 CPUs",
        "no lock moves between sockets",
        "",
    );
    assert_eq!(verdict(&host, "machine.smt").1, "48 on 24 cores, SMT on");
    assert_eq!(verdict(&host, "machine.caches").0, Level::Note);
    assert_eq!(verdict(&host, "kernel.layers").1, "by name below /proc/self/fd (lowerdir+)");
}

#[test]
fn chiplets_without_hardware_threads() {
    let host = host("chiplets", "6.17.0", V2);
    says(
        &host,
        "machine.caches",
        Level::Good,
        "12 chiplets with 8 CPUs and a cache of 32 MiB each",
        "waiting spreads over chiplets: in \"Mount Mayhem at Netflix\", starts took 20 % less time than on a mesh",
        "",
    );
    says(
        &host,
        "machine.smt",
        Level::Good,
        "one per core, 96 cores, SMT switched off",
        "threads that spin on a lock have a core of their own",
        "",
    );
}

#[test]
fn four_nodes_of_seed_002_on_v1() {
    let host = host("nehalem-ex", "2.6.32-71.el6", V1);
    assert_eq!(
        verdict(&host, "machine.numa"),
        (
            Level::Warning,
            "4 nodes, 8 CPUs each, distance 21".into(),
            "the mount lock moves between sockets: on two sockets, starts failed from about 100 at once".into(),
            "dayfly run --start-cpus node:0 …".into(),
        )
    );
    let (level, fact, ..) = verdict(&host, "kernel.version");
    assert_eq!((level, fact.as_str()), (Level::Error, "Linux 2.6.32-71.el6"));
    let (level, fact, _, fix) = verdict(&host, "cgroup.mode");
    assert_eq!((level, fact.as_str()), (Level::Warning, "v1: 5 hierarchies"));
    assert_eq!(fix, "boot with systemd.unified_cgroup_hierarchy=1");
    assert_eq!(verdict(&host, "cgroup.favordynmods").1, "not in this kernel");
    assert_eq!(verdict(&host, "kernel.birth").1, "moved (no clone3 into cgroup)");
}

#[test]
fn a_host_as_it_should_be() {
    let sysroot = good();
    let facts = Facts::of(Some(&sysroot.path)).unwrap();
    let sections = look(&facts, true).unwrap();
    let bad = sections.iter().flat_map(|section| &section.verdicts);
    let bad: Vec<_> = bad.filter(|verdict| verdict.level > Level::Note).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(worst(&sections), Level::Note);
    assert!(sections.iter().all(|section| section.title != "measured here"));
}

#[test]
fn favordynmods_by_mount_boot_and_build() {
    let on = "dayfly host favordynmods on";
    let state = |sysroot: &Sysroot| {
        let facts = Facts::of(Some(&sysroot.path)).unwrap();
        State::of(&facts, &Layout::of(&facts))
    };
    let sysroot = good();
    let (level, fact, _, fix) = verdict(&sysroot, "cgroup.favordynmods");
    assert_eq!((level, fact.as_str(), fix.as_str()), (Level::Note, "off", on));
    assert!(!state(&sysroot).one_way);

    sysroot.put("proc/sys/kernel/osrelease", "6.18.2");
    assert!(state(&sysroot).one_way);
    assert!(verdict(&sysroot, "cgroup.favordynmods").3.contains("one-way until reboot"));

    let mounted = V2.replace("nsdelegate", "nsdelegate,favordynmods");
    sysroot.put("proc/self/mountinfo", &mounted);
    let (level, fact, _, fix) = verdict(&sysroot, "cgroup.favordynmods");
    assert_eq!((level, fact.as_str()), (Level::Good, "on, by mount option, until the next boot"));
    assert_eq!(fix, "dayfly host favordynmods persist");

    sysroot.put("proc/cmdline", "quiet cgroup_favordynmods=true -- cgroup_favordynmods=0");
    assert_eq!(verdict(&sysroot, "cgroup.favordynmods").1, "on, by boot parameter");
    sysroot.put("proc/cmdline", "quiet");
    sysroot.put("boot/config-6.18.2", "CONFIG_CGROUPS=y\nCONFIG_CGROUP_FAVOR_DYNMODS=y");
    assert_eq!(verdict(&sysroot, "cgroup.favordynmods").1, "on, as the kernel is built");

    let v1 = host("chiplets", "6.7.0", V1);
    let (level, fact, _, fix) = verdict(&v1, "cgroup.favordynmods");
    // dayfly's starts move threads, which do not wait for a grace period.
    assert_eq!((level, fact.as_str()), (Level::Note, "off"));
    assert_eq!(fix, "dayfly host favordynmods on");
}

#[test]
fn layers_and_the_containerd_that_maps_them() {
    let sysroot = good();
    let blobs = "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256";
    let layers = vec!["{}"; 52].join(",");
    sysroot
        .put(&format!("{blobs}/aa"), &format!("{{\"schemaVersion\":2,\"layers\":[{layers}]}}"))
        .put(&format!("{blobs}/bb"), "not json")
        .put(
            "var/lib/dpkg/status",
            "Package: containerd\nStatus: install ok installed\nVersion: 1.7.24~ds1-6",
        );
    // Before 2.0, no ids are mapped.
    assert!(verdict(&sysroot, "mounts.layers").2.contains("200 mount operations"));
    assert_eq!(verdict(&sysroot, "mounts.containerd").0, Level::Good);
    sysroot.put(
        "var/lib/dpkg/status",
        "Package: containerd.io\nStatus: install ok installed\nVersion: 2.1.4-1",
    );
    says(
        &sysroot,
        "mounts.layers",
        Level::Warning,
        "no overlay mounted; largest image 52 layers (containerd)",
        "100 starts with ids of their own: 21 000 mount operations by this containerd, 100 by dayfly, none in the host's table",
        "update containerd, or have images of fewer layers",
    );
    assert_eq!(verdict(&sysroot, "mounts.containerd").0, Level::Warning);
    sysroot.put(
        "var/lib/dpkg/status",
        "Package: containerd.io\nStatus: install ok installed\nVersion: 2.2.1-1",
    );
    assert!(verdict(&sysroot, "mounts.layers").2.contains("600 mount operations"));
    says(
        &sysroot,
        "mounts.containerd",
        Level::Good,
        "2.2.1-1",
        "maps the ids of an image twice per container; 2.3 once",
        "",
    );
}

#[test]
fn a_long_mount_table() {
    let sysroot = good();
    let mut table = V2.to_owned();
    for number in 0..1200 {
        table += &format!(
            "\n{0} 21 0:40 / /m{0} rw,idmapped - overlay overlay rw,lowerdir=/a:/b",
            number + 50
        );
    }
    sysroot.put("proc/self/mountinfo", &table);
    let (level, fact, ..) = verdict(&sysroot, "mounts.table");
    assert_eq!((level, fact.as_str()), (Level::Warning, "1203 mounts"));
    let (_, fact, ..) = verdict(&sysroot, "mounts.layers");
    assert_eq!(fact, "1200 overlays mounted, at most 2 layers; 1200 id-mapped mounts");
    sysroot.put("proc/sys/fs/mount-max", "2000");
    assert_eq!(verdict(&sysroot, "limits.mounts").0, Level::Warning);
}

#[test]
fn settings_that_hurt() {
    let sysroot = good();
    let cases = [
        (
            "sys/kernel/rcu_normal",
            "1",
            "settings.rcu",
            Level::Warning,
            "echo 0 > /sys/kernel/rcu_normal",
        ),
        (
            "proc/sys/net/core/bpf_jit_enable",
            "0",
            "settings.seccomp_jit",
            Level::Warning,
            "sysctl -w net.core.bpf_jit_enable=1",
        ),
        (
            "proc/sys/user/max_user_namespaces",
            "0",
            "limits.namespaces",
            Level::Warning,
            "sysctl -w user.max_user_namespaces=65536",
        ),
        (
            "proc/sys/user/max_net_namespaces",
            "0",
            "limits.namespaces",
            Level::Error,
            "sysctl -w user.max_net_namespaces=65536",
        ),
        (
            "proc/sys/kernel/pid_max",
            "32768",
            "limits.pids",
            Level::Warning,
            "sysctl -w kernel.pid_max=4194304",
        ),
        (
            "proc/sys/fs/inotify/max_user_instances",
            "128",
            "limits.inotify",
            Level::Warning,
            "sysctl -w fs.inotify.max_user_instances=8192",
        ),
        (
            "proc/self/limits",
            "Max open files 1024 2048 files",
            "limits.files",
            Level::Warning,
            "LimitNOFILE=1048576 in the engine's unit, or ulimit -Hn 1048576",
        ),
    ];
    for (file, content, id, level, fix) in cases {
        sysroot.put(file, content);
        let (found, _, _, said) = verdict(&sysroot, id);
        assert_eq!((found, said.contains(fix)), (level, true), "{id}: {said}");
    }
}

#[test]
fn what_is_no_host_is_refused() {
    let empty = Sysroot::empty();
    let refused = Facts::of(Some(&empty.path)).unwrap_err().to_string();
    assert!(refused.contains("proc/sys/kernel/osrelease: no such file"), "{refused}");
    assert!(Facts::of(Some(std::path::Path::new("/nowhere"))).is_err());
    // A sysroot whose path is not valid UTF-8 is rejected; the check must not examine this host instead.
    let odd =
        empty.path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff"));
    let host = good();
    std::os::unix::fs::symlink(&host.path, &odd).expect("link");
    let facts = Facts::of(Some(&odd)).expect("facts");
    let refused = look(&facts, false).unwrap_err().to_string();
    assert!(refused.ends_with("the path is no UTF-8"), "{refused}");
}

/// Tests that each row of the table of verdicts is one that the checks look up.
#[test]
fn no_row_of_the_table_is_unused() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
    let files = std::fs::read_dir(&top).unwrap().flatten().map(|entry| entry.path());
    let files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect();
    let source: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let table = std::fs::read_to_string(top.join("verdicts.toml")).unwrap();
    let rows = table.lines().filter_map(|line| match line.strip_prefix('[') {
        Some(id) => id.strip_suffix(']'),
        None => line.split_once(" = { level").map(|(case, _)| case),
    });
    for row in rows {
        assert!(
            source.contains(&format!("\"{row}\"")) || ["v1", "v2", "hybrid"].contains(&row),
            "{row}"
        );
    }
}
