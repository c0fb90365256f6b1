//! Draws processes: of the container, and of an exec.

use super::{FILE_PLACES, PLACES};
use crate::differ::random::Random;
use serde_json::{Value, json};

/// The capabilities that Docker and Podman give.
const USUAL: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];
const MORE: &[&str] = &[
    "CAP_SYS_ADMIN",
    "CAP_NET_ADMIN",
    "CAP_SYS_PTRACE",
    "CAP_BPF",
    "CAP_SYSLOG",
    "CAP_DAC_READ_SEARCH",
    "CAP_SYS_RESOURCE",
    "CAP_BOGUS",
];

pub(super) fn draw(random: &mut Random) -> Value {
    let kind =
        if random.odd(12) { random.below(6) } else { random.pick(&[3, 4, 9, 9, 9, 9, 9, 9]) };
    let mut args = match kind {
        0 => vec!["/missing"],
        1 => vec![random.pick(&["/noexec", "/badexec", "/f", "/link/f"])],
        2 => vec![random.pick(&["/a", "/link", "/loop", "/dangling", "/f/x"])],
        3 => vec!["probe"],
        4 => vec!["./probe"],
        5 => vec![random.pick(&["nosuchname", "", "a", "noexec"])],
        _ => vec!["/probe"],
    };
    if random.chance(15) {
        args.push(random.pick(&["exit=1", "exit=7", "exit=255"]));
    }
    if random.chance(3) {
        args.push("");
    }
    common(random, &args)
}

pub(super) fn draw_exec(random: &mut Random) -> Value {
    let args = match random.below(20) {
        0 => vec!["/missing"],
        1 => vec!["/a"],
        2 => vec!["/noexec"],
        _ => vec!["/probe", random.pick(&["exit=0", "exit=3"])],
    };
    let mut process = common(random, &args);
    if let Some(process) = process.as_object_mut() {
        process.remove("terminal");
        process.remove("consoleSize");
    }
    process
}

fn common(random: &mut Random, args: &[&str]) -> Value {
    let mut user = json!({ "uid": 0, "gid": 0 });
    if random.chance(35) {
        user["uid"] = random.pick(&[0, 1, 1000, 65534, 70_000]).into();
        user["gid"] = random.pick(&[0, 5, 1000, 65534]).into();
    }
    if random.chance(25) {
        user["additionalGids"] = random.some(&[0, 1, 10, 1000, 2000], 40).into();
    }
    if random.chance(15) {
        user["umask"] = random.pick(&[0, 0o22, 0o27, 0o77]).into();
    }
    let mut env = vec![random.pick(&["PATH=/:/bin", "PATH=/usr/bin:/", "PATH=/bin:/a", "PATH="])];
    if !random.odd(3) {
        env[0] = "PATH=/usr/bin:/";
    }
    if random.odd(2) {
        env.clear();
    }
    env.append(&mut random.some(
        &["HOME=/x", "HOME=", "A=1", "A=2", "EMPTY=", "TERM=xterm", "SPACE=a b", "LISTEN_FDS=1"],
        8,
    ));
    if random.odd(2) {
        env.push(random.pick(&["NOVALUE", "=x", ""]));
    }
    let mut process = json!({ "user": user, "args": args, "env": env, "cwd": "/" });
    if random.chance(15) {
        process["cwd"] = random.pick(PLACES).into();
    }
    if random.odd(3) {
        process["cwd"] = random.pick(FILE_PLACES).into();
    }
    if random.odd(2) {
        process["cwd"] = random.pick(&["a", "", "/a/../b", "/.."]).into();
    }
    if random.chance(8) {
        process["terminal"] = true.into();
        if random.chance(60) {
            process["consoleSize"] =
                json!({ "height": random.pick(&[24, 50]), "width": random.pick(&[80, 133]) });
        }
    }
    capabilities(random, &mut process);
    if random.chance(25) {
        process["rlimits"] = rlimits(random).into();
    }
    if random.chance(50) {
        process["noNewPrivileges"] = random.chance(80).into();
    }
    if random.chance(25) {
        process["oomScoreAdj"] = random.pick(&[0, 1, 100, 500, 1000]).into();
    }
    if random.odd(2) {
        process["oomScoreAdj"] = (-100).into();
    }
    if random.chance(4) {
        process["scheduler"] = {
            let (policy, nice) =
                random.pick(&[("SCHED_BATCH", 5), ("SCHED_OTHER", 3), ("SCHED_IDLE", 0)]);
            json!({ "policy": policy, "nice": nice })
        };
    }
    if random.chance(4) {
        process["ioPriority"] = json!({ "class": random.pick(&["IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE"]), "priority": random.below(8) });
    }
    process
}

fn capabilities(random: &mut Random, process: &mut Value) {
    let kinds = ["bounding", "effective", "permitted", "inheritable", "ambient"];
    let sets = match random.below(20) {
        0..=9 => kinds.iter().take(3).map(|kind| (*kind, USUAL.to_vec())).collect(),
        10..=12 => kinds.iter().map(|kind| (*kind, USUAL.to_vec())).collect(),
        13..=14 => {
            let mut all = USUAL.to_vec();
            all.append(&mut random.some(&MORE[..7], 40));
            kinds.iter().take(3).map(|kind| (*kind, all.clone())).collect()
        }
        15..=16 if random.odd(60) => {
            let percent = random.pick(&[10, 50, 90]);
            kinds.iter().map(|kind| (*kind, random.some(USUAL, percent))).collect()
        }
        15..=18 => {
            // Each set in the one that the kernel requires it to be in.
            let bounding = random.some(USUAL, 70);
            let permitted = random.some(&bounding, 70);
            let inheritable = random.some(&bounding, 50);
            let both: Vec<&str> =
                permitted.iter().copied().filter(|one| inheritable.contains(one)).collect();
            // The kernel refuses single ambient ones that are not in both; a container starts without them.
            let ambient = if random.chance(40) { &bounding } else { &both };
            vec![
                ("effective", random.some(&permitted, 70)),
                ("ambient", random.some(ambient, 70)),
                ("bounding", bounding),
                ("permitted", permitted),
                ("inheritable", inheritable),
            ]
        }
        _ => return,
    };
    let sets: Vec<(&str, Vec<&str>)> = sets;
    process["capabilities"] = json!({});
    for (kind, set) in sets {
        if !random.odd(2) {
            process["capabilities"][kind] = set.into();
        }
    }
    if random.odd(3) {
        process["capabilities"]["bounding"] = MORE.into();
    }
}

fn rlimits(random: &mut Random) -> Vec<Value> {
    let all = [
        ("RLIMIT_NOFILE", 256, 1024),
        ("RLIMIT_NOFILE", 1024, 1024),
        ("RLIMIT_NPROC", 4096, 8192),
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_FSIZE", 1u64 << 30, 1u64 << 31),
        ("RLIMIT_STACK", 8 << 20, 16 << 20),
        ("RLIMIT_MEMLOCK", 65536, 65536),
        ("RLIMIT_CPU", 100, 200),
        ("RLIMIT_NICE", 0, 0),
        ("RLIMIT_SIGPENDING", 100, 100),
        ("RLIMIT_MSGQUEUE", 1000, 2000),
    ];
    let mut limits: Vec<Value> = Vec::new();
    for (kind, soft, hard) in random.some(&all, 20) {
        limits.push(json!({ "type": kind, "soft": soft, "hard": hard }));
    }
    if random.odd(15) {
        let (kind, soft, hard) =
            random.pick(&[("RLIMIT_BOGUS", 1, 1), ("RLIMIT_CORE", 2, 1), ("NOFILE", 9, 9)]);
        limits.push(json!({ "type": kind, "soft": soft, "hard": hard }));
    }
    limits
}
