//! Draws what `linux` of a configuration has: namespaces, devices, resources, masks, filters.

use super::{FILE_PLACES, PLACES};
use crate::differ::random::Random;
use crate::differ::view::View;
use serde_json::{Value, json};

/// What engines hide, and make read-only.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
    "/proc/scsi",
];
const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Returns the list of namespaces: new, joined by their paths, or left out.
pub(super) fn namespaces(random: &mut Random) -> Vec<Value> {
    let mut all = Vec::new();
    // Without privileges over the host's other namespaces, proc, sysfs and mqueue can't be mounted.
    let has_user = random.chance(18);
    for (kind, percent, joined) in [
        ("mount", 100, 0),
        ("pid", 92, 3),
        ("network", 80, 8),
        ("ipc", 88, 6),
        ("uts", 88, 5),
        ("cgroup", 50, 0),
        ("user", 0, 0),
        ("time", 4, 0),
    ] {
        // Without it, much is refused.
        let is_missing = if kind == "mount" {
            random.odd(6)
        } else {
            match kind {
                "user" => !has_user,
                "pid" | "network" | "ipc" | "uts" if has_user => random.odd(5),
                _ => !random.chance(percent),
            }
        };
        if is_missing {
            continue;
        }
        let mut one = json!({ "type": kind });
        if random.chance(joined) && (!has_user || random.odd(50)) {
            one["path"] = format!("@N/{kind}").into();
        }
        all.push(one);
    }
    if random.odd(2) {
        let kind = random.pick(&["pid", "bogus", "network"]);
        all.push(json!({ "type": kind }));
    }
    if random.odd(2) {
        let path = random.pick(&["@N/missing", "@N/uts", "@H/file"]);
        all.push(json!({ "type": "network", "path": path }));
    }
    all
}

/// Sets the mappings of a user namespace.
pub(super) fn mappings(random: &mut Random, linux: &mut Value) {
    let drawn = match random.below(10) {
        0 => json!([{ "containerID": 0, "hostID": 0, "size": 65536 }]),
        1 => {
            json!([{ "containerID": 0, "hostID": 100_000, "size": 1 }, { "containerID": 1, "hostID": 200_000, "size": 70_000 }])
        }
        2 if random.odd(50) => json!([{ "containerID": 0, "hostID": 1000, "size": 1 }]),
        3 if random.odd(50) => json!([{ "containerID": 1, "hostID": 100_001, "size": 65535 }]),
        _ => json!([{ "containerID": 0, "hostID": 100_000, "size": 65536 }]),
    };
    if !random.odd(8) {
        linux["uidMappings"] = drawn.clone();
    }
    if !random.odd(8) {
        linux["gidMappings"] = drawn;
    }
}

/// Sets everything else of `linux`.
pub(super) fn draw(random: &mut Random, linux: &mut Value, view: View, namespaces: &[Value]) {
    if random.chance(75) {
        linux["maskedPaths"] = paths(random, MASKED, READ_ONLY);
    }
    if random.chance(75) {
        linux["readonlyPaths"] = paths(random, READ_ONLY, MASKED);
    }
    if random.chance(15) {
        linux["devices"] = devices(random).into();
    }
    if random.chance(20) {
        sysctls(random, linux, namespaces);
    }
    if random.chance(75) {
        linux["cgroupsPath"] = "@C".into();
    } else if random.chance(30) {
        linux["cgroupsPath"] = random.pick(&["@C/sub/deep", "@I/relative", "@C//x"]).into();
    }
    if random.chance(70) {
        linux["resources"] = resources(random, view);
    }
    if random.chance(15) {
        linux["rootfsPropagation"] = random
            .pick(&["private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable"])
            .into();
        if random.odd(8) {
            linux["rootfsPropagation"] = "bogus".into();
        }
    }
    if random.chance(25) {
        linux["seccomp"] = seccomp(random);
    }
    if random.chance(8) {
        linux["personality"] = json!({ "domain": random.pick(&["LINUX", "LINUX32"]) });
    }
    if random.chance(5) {
        linux["timeOffsets"] = json!({ "monotonic": { "secs": 100 } });
    }
}

/// Draws a list of paths: the usual ones, places in the image, and at times what the other list usually has.
fn paths(random: &mut Random, usual: &[&str], other: &[&'static str]) -> Value {
    let mut all: Vec<&str> = usual.to_vec();
    if random.chance(6) {
        all.append(&mut random.some(other, 30));
    }
    if random.chance(20) {
        all.append(&mut random.some(PLACES, 8));
        all.append(&mut random.some(FILE_PLACES, 8));
    }
    if random.odd(5) {
        all.append(&mut random.some(
            &[
                "/loop",
                "/dev/null",
                "/dev/shm",
                "/proc",
                "/sys/fs/cgroup",
                "relative",
                "/a/../b",
                "/f/below",
                "/dev",
            ],
            20,
        ));
    }
    all.into()
}

fn devices(random: &mut Random) -> Vec<Value> {
    let all = [
        ("/dev/fuse", "c", 10, 229),
        ("/dev/extra", "c", 1, 3),
        ("/dev/null", "c", 1, 3),
        ("/dev/loop0", "b", 7, 0),
        ("/dev/pipe", "p", 0, 0),
        ("/b/null", "c", 1, 3),
        ("/dev/new/dir/zero", "c", 1, 5),
        ("/link/zero", "c", 1, 5),
        ("/dev/mem", "c", 1, 1),
        ("/dev/raw", "u", 1, 9),
        ("/f", "c", 1, 3),
        ("/dev/tty", "c", 5, 0),
    ];
    let mut devices = Vec::new();
    for (path, kind, major, minor) in random.some(&all, 12) {
        let mut device = json!({ "path": path, "type": kind });
        if kind != "p" {
            device["major"] = major.into();
            device["minor"] = minor.into();
        }
        if random.chance(60) {
            device["fileMode"] = random.pick(&[0o666, 0o600, 0o20_644, 0o4755]).into();
        }
        if random.chance(40) {
            device["uid"] = random.pick(&[0, 1000]).into();
            device["gid"] = random.pick(&[0, 5, 1000]).into();
        }
        devices.push(device);
    }
    if random.odd(20) {
        let (path, kind) = random.pick(&[
            ("/dev/bogus", "x"),
            ("dev/relative", "c"),
            ("/dev/shm", "c"),
            ("/f/below", "c"),
        ]);
        devices.push(json!({ "path": path, "type": kind, "major": 1, "minor": 3 }));
    }
    devices
}

fn sysctls(random: &mut Random, linux: &mut Value, namespaces: &[Value]) {
    let mut drawn = json!({});
    let all = [
        ("network", "net.ipv4.ip_forward", "1"),
        ("network", "net.ipv4.ping_group_range", "0 0"),
        ("network", "net.ipv4.ip_unprivileged_port_start", "80"),
        ("network", "net/core/somaxconn", "100"),
        ("ipc", "kernel.shm_rmid_forced", "1"),
        ("ipc", "kernel.msgmax", "9000"),
        ("ipc", "fs.mqueue.msg_max", "20"),
        ("uts", "kernel.domainname", "sysctl.example"),
    ];
    for (kind, name, value) in random.some(&all, 20) {
        let fits = namespaces.iter().any(|one| one["type"] == kind && one["path"].is_null());
        // In the host's namespace only what is refused may be drawn: it must not change the host.
        if fits {
            drawn[name] = value.into();
        }
    }
    if random.odd(20) {
        drawn[random.pick(&[
            "kernel.hostname",
            "kernel.pid_max",
            "vm.swappiness",
            "net.ipv4.bogus",
            "bogus",
        ])] = "1".into();
    }
    linux["sysctl"] = drawn;
}

fn resources(random: &mut Random, view: View) -> Value {
    let mut resources = json!({});
    if random.chance(85) {
        let mut rules = vec![json!({ "allow": false, "access": "rwm" })];
        for (kind, major, minor, access) in random.some(
            &[
                ("c", 10, 229, "rwm"),
                ("c", 1, 1, "r"),
                ("b", 7, -1, "m"),
                ("c", -1, -1, "m"),
                ("c", 1, 3, "rw"),
                ("c", 1, 5, "rwm"),
            ],
            15,
        ) {
            let mut rule = json!({ "allow": random.chance(80), "type": kind, "access": access });
            if major >= 0 {
                rule["major"] = major.into();
            }
            if minor >= 0 {
                rule["minor"] = minor.into();
            }
            rules.push(rule);
        }
        if random.chance(4) {
            rules.push(json!({ "allow": true, "access": "rwm" }));
        }
        resources["devices"] = rules.into();
    }
    if view == View::V2 {
        return resources;
    }
    if random.chance(25) {
        resources["pids"] = json!({ "limit": random.pick(&[100, 32, -1, 0]) });
    }
    if random.chance(25) {
        resources["memory"] = json!({ "limit": random.pick(&[64 << 20, 256 << 20, -1]) });
        if random.chance(40) {
            resources["memory"]["reservation"] = (32 << 20).into();
        }
        if random.chance(20) {
            resources["memory"]["swappiness"] = random.pick(&[0, 60, 100]).into();
        }
        if random.chance(15) {
            resources["memory"]["disableOOMKiller"] = true.into();
        }
        if random.chance(15) {
            resources["memory"]["swap"] = random.pick(&[512 << 20, -1]).into();
        }
    }
    if random.chance(25) {
        resources["cpu"] = json!({ "shares": random.pick(&[2, 512, 1024]) });
        if random.chance(50) {
            resources["cpu"]["quota"] = random.pick(&[50_000, 200_000, -1]).into();
        }
        if random.chance(50) {
            resources["cpu"]["period"] = random.pick(&[100_000, 50_000]).into();
        }
        if random.chance(25) {
            resources["cpu"]["cpus"] = random.pick(&["0", "0-1", "1"]).into();
        }
        if random.chance(15) {
            resources["cpu"]["mems"] = if random.odd(30) { "9" } else { "0" }.into();
        }
        if random.chance(10) {
            resources["cpu"]["burst"] = 10_000.into();
        }
        if random.chance(5) {
            resources["cpu"]["idle"] = 1.into();
        }
    }
    if random.chance(6) {
        resources["blockIO"] = json!({ "weight": random.pick(&[10, 500]) });
    }
    if random.chance(8) {
        resources["hugepageLimits"] = json!([{ "pageSize": "2MB", "limit": 2 << 20 }]);
    }
    if random.chance(8) {
        resources["network"] = json!({ "classID": 65537 });
    }
    resources
}

fn seccomp(random: &mut Random) -> Value {
    let refused = random.some(
        &[
            "getpriority",
            "getpgid",
            "fsync",
            "socket",
            "unshare",
            "chroot",
            "mkdirat",
            "mknodat",
            "bogus_call",
        ],
        30,
    );
    let mut profile = json!({ "defaultAction": "SCMP_ACT_ALLOW" });
    if random.chance(60) {
        profile["architectures"] = random
            .pick(&[
                &["SCMP_ARCH_X86_64"][..],
                &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
            ])
            .into();
    }
    if random.chance(30) {
        profile["flags"] = random
            .some(
                &[
                    "SECCOMP_FILTER_FLAG_LOG",
                    "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
                    "SECCOMP_FILTER_FLAG_TSYNC",
                ],
                30,
            )
            .into();
        if random.odd(20) {
            profile["flags"] = json!(["SECCOMP_FILTER_FLAG_BOGUS"]);
        }
    }
    let mut rule = json!({ "names": refused, "action": random.pick(&["SCMP_ACT_ERRNO", "SCMP_ACT_ERRNO", "SCMP_ACT_LOG", "SCMP_ACT_ALLOW"]) });
    if rule["action"] == "SCMP_ACT_ERRNO" && random.chance(30) || random.odd(5) {
        rule["errnoRet"] = random.pick(&[1, 38, 95]).into();
    }
    if random.chance(20) {
        rule["args"] = json!([{ "index": 0, "value": random.pick(&[0, 2]), "op": random.pick(&["SCMP_CMP_EQ", "SCMP_CMP_NE", "SCMP_CMP_GE", "SCMP_CMP_LT"]) }]);
    }
    profile["syscalls"] = json!([rule]);
    profile
}
