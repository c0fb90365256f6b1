//! Classifies a system call by its name, its arguments and the path of its object.
//!
//! The phases are those of dayfly's own steps, so that tables can be shown side by side.

use crate::base::*;
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use trace::Phase;

/// The purpose of a call, and whether it may sleep until another process acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The phase.
    pub phase: Phase,
    /// Whether the time of the call counts as waiting rather than work.
    pub waits: bool,
}

/// The paths of a container's files, from which the purpose of a call on them is derived.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// The root filesystem.
    root: String,
    /// The masked and the read-only paths, as the container sees them.
    hidden: Vec<String>,
}

impl Layout {
    /// Returns the layout of a config.json.
    pub fn of(config: &Value) -> Self {
        let paths = |name: &str| {
            let list = config["linux"][name].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        Self {
            root: config["root"]["path"].as_str().unwrap_or("/nowhere").to_owned(),
            hidden: [paths("maskedPaths"), paths("readonlyPaths")].concat(),
        }
    }

    /// Returns whether a path, as seen by the host or the container, is among the paths that are
    /// masked or made read-only.
    fn hides(&self, path: &str) -> bool {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        self.hidden.iter().any(|hidden| hidden == inside)
    }
}

/// Classifies the call `name` with `args`; `object` is its object, as far as known.
pub fn classify(name: &str, args: &[u64; 6], object: &str, layout: &Layout) -> Class {
    /// Calls on a masked or read-only path, which make it so.
    const HIDING: [&str; 6] =
        ["mount", "umount2", "move_mount", "mount_setattr", "open_tree", "open_tree_attr"];
    let work = |phase| Class { phase, waits: false };
    let wait = |phase| Class { phase, waits: true };
    match name {
        _ if HIDING.contains(&name) && layout.hides(object) => work(Phase::Security),
        "prctl" => work(control(args[0])),
        // Without a new limit, prlimit64 only reads the present one.
        "prlimit64" if args[2] != 0 => work(Phase::Security),
        "futex" if futex_waits(args[1]) => wait(Phase::Sync),
        "socket" => work(if args[0] == AF_UNIX { Phase::Sync } else { Phase::Platform }),
        "ioctl" if NETWORK.contains(&args[1]) || TERMINAL.contains(&args[1]) => {
            work(Phase::Platform)
        }
        "open" | "openat" | "openat2" if object.ends_with(FIFO) => wait(Phase::Sync),
        "read" | "readv" | "recvmsg" | "recvfrom" | "recvmmsg" if is_channel(object) => {
            wait(Phase::Sync)
        }
        _ => {
            let call = call(name);
            let phase = call.and_then(|call| call.phase);
            let phase = phase.unwrap_or_else(|| of_object(object, layout));
            Class { phase, waits: call.is_some_and(|call| call.waits) }
        }
    }
}

const AF_UNIX: u64 = 1;
/// The range of ioctl(2) requests about network devices, SIOC….
const NETWORK: RangeInclusive<u64> = 0x8900..=0x89ff;
/// The range of requests about terminals, TIOC… and TC….
const TERMINAL: RangeInclusive<u64> = 0x5400..=0x54ff;
/// The FIFO with which runc holds a created container.
const FIFO: &str = "exec.fifo";

/// The object of calls on netlink sockets. The caller of [`classify`] identifies these sockets.
pub const NETLINK: &str = "netlink";

/// Returns whether an object is a channel through which processes communicate.
fn is_channel(object: &str) -> bool {
    ["pipe", "socket", "eventfd", "signalfd", "timerfd", "inotify"].contains(&object)
}

fn of_object(object: &str, layout: &Layout) -> Phase {
    if is_channel(object) || object == "eventpoll" || object.ends_with(FIFO) {
        return Phase::Sync;
    }
    if object == NETLINK {
        return Phase::Platform;
    }
    if layout.hides(object) {
        return Phase::Security;
    }
    let places = [
        ("/sys/fs/cgroup", Phase::Cgroups),
        (&layout.root, Phase::Mounts),
        ("/proc/sys/", Phase::Platform),
        ("/dev/pts", Phase::Platform),
        ("/sys/kernel/security", Phase::Security),
        ("/sys/module/apparmor", Phase::Security),
    ];
    let place = places.iter().find(|(place, _)| object.starts_with(place));
    let phase = place.map(|(_, phase)| *phase).or_else(|| of_process_file(object));
    phase.unwrap_or(Phase::Configuration)
}

/// Returns the phase of a file of a process, such as `/proc/1/cgroup` or `/proc/self/uid_map`.
fn of_process_file(path: &str) -> Option<Phase> {
    let (_, file) = path.strip_prefix("/proc/")?.split_once('/')?;
    let file = file.strip_prefix("attr/").map_or(file, |_| "attr");
    match file {
        "cgroup" => Some(Phase::Cgroups),
        "uid_map" | "gid_map" | "setgroups" | "timens_offsets" => Some(Phase::Platform),
        "mountinfo" | "mounts" => Some(Phase::Mounts),
        "attr" | "oom_score_adj" => Some(Phase::Security),
        _ => file.starts_with("ns/").then_some(Phase::Platform),
    }
}

/// Returns the phase of an operation of prctl(2).
fn control(option: u64) -> Phase {
    match option {
        // The parent's death signal, the name, the memory map, the subreaper, names of memory.
        1 | 15 | 16 | 35..=37 | 0x5356_4d41 => Phase::Bootstrap,
        // Dumpable, keep capabilities, bounding and ambient sets, securebits, seccomp, no new privileges.
        _ => Phase::Security,
    }
}

/// Returns whether an operation of futex(2) sleeps: WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
fn futex_waits(operation: u64) -> bool {
    matches!(operation & 0x7f, 0 | 6 | 9 | 11 | 13)
}

/// What is known about a system call by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The phase; `None` if that of the object counts.
    pub phase: Option<Phase>,
    /// Whether the call may sleep until another process acts.
    pub waits: bool,
    /// The kind of the argument that determines the object, and the argument's number.
    pub object: (&'static str, usize),
}

/// Returns what is known about the call `name`; `None` for calls without an object whose phase is not known.
pub fn call(name: &str) -> Option<Call> {
    static CALLS: LazyLock<HashMap<&str, Call>> = LazyLock::new(|| {
        let lines = include_str!("calls.txt").lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(entries).collect()
    });
    CALLS.get(name).copied()
}

/// Reads a line of the table.
fn entries(line: &'static str) -> impl Iterator<Item = (&'static str, Call)> {
    let mut words = line.split_whitespace();
    let phase = words.next().unwrap_or_default();
    let object = words.next().unwrap_or_default();
    let (kind, argument) = object.split_once(':').unwrap_or((object, "0"));
    let named = phase.trim_start_matches("wait:");
    let call = Call {
        phase: Phase::ALL.into_iter().find(|phase| phase.name() == named),
        waits: phase != named,
        object: (kind, argument.parse().unwrap_or(0)),
    };
    words.map(move |name| (name, call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn layout() -> Layout {
        Layout::of(&json!({
            "root": { "path": "/bundle/rootfs" },
            "linux": { "maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/sys"] },
        }))
    }

    fn phase(name: &str, first: u64, object: &str) -> Phase {
        classify(name, &[first, 0, 0, 0, 0, 0], object, &layout()).phase
    }

    #[test]
    fn each_phase_has_its_calls() {
        for (name, first, object, expected) in [
            ("mount", 0, "/bundle/rootfs/proc", Phase::Mounts),
            ("mount", 0, "/bundle/rootfs/proc/kcore", Phase::Security),
            ("move_mount", 0, "/proc/sys", Phase::Security),
            ("mkdirat", 0, "/bundle/rootfs/dev/pts", Phase::Mounts),
            ("unshare", 0, "", Phase::Platform),
            ("write", 0, "/proc/sys/net/ipv4/ip_forward", Phase::Platform),
            ("openat", 0, "/proc/self/uid_map", Phase::Platform),
            ("sendto", 0, NETLINK, Phase::Platform),
            ("write", 0, "/sys/fs/cgroup/a/cgroup.procs", Phase::Cgroups),
            ("openat", 0, "/proc/71/cgroup", Phase::Cgroups),
            ("bpf", 5, "", Phase::Cgroups),
            ("seccomp", 1, "", Phase::Security),
            ("prctl", 38, "", Phase::Security),
            ("prctl", 36, "", Phase::Bootstrap),
            ("write", 0, "/proc/self/oom_score_adj", Phase::Security),
            ("clone3", 0, "", Phase::Bootstrap),
            ("write", 0, "pipe", Phase::Sync),
            ("openat", 0, "/run/x/state.json", Phase::Configuration),
            ("read", 0, "/etc/passwd", Phase::Configuration),
            ("no_such_call", 0, "", Phase::Configuration),
        ] {
            assert_eq!(phase(name, first, object), expected, "{name} {object}");
        }
    }

    #[test]
    fn waits_are_told_from_work() {
        let waits = |name, args: [u64; 6], object| classify(name, &args, object, &layout()).waits;
        let none = [0; 6];
        assert!(waits("read", none, "pipe"));
        assert!(!waits("write", none, "pipe"));
        assert!(!waits("read", none, "/etc/passwd"));
        assert!(waits("wait4", none, ""));
        assert!(waits("futex", [0, 128, 0, 0, 0, 0], ""), "FUTEX_WAIT_PRIVATE");
        assert!(!waits("futex", [0, 129, 0, 0, 0, 0], ""), "FUTEX_WAKE_PRIVATE");
        assert!(waits("openat", none, "/run/runc/c/exec.fifo"));
    }
}
