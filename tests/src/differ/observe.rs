//! What the host can see of a container's process, in facts that two runtimes' containers can be compared by.

use crate::differ::mountinfo;
use crate::differ::view::View;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Facts about a container, by their names. A name `A | B` is a detail of `A`.
pub type Facts = BTreeMap<String, String>;

/// Lines of /proc/PID/status that tell something about the configuration.
const STATUS: &[&str] = &[
    "Name",
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "Threads",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "SigPnd",
    "ShdPnd",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Cpus_allowed_list",
    "Mems_allowed_list",
    "THP_enabled",
    "CoreDumping",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
];
const FILES: &[&str] = &[
    "limits",
    "oom_score_adj",
    "personality",
    "uid_map",
    "gid_map",
    "setgroups",
    "coredump_filter",
    "timerslack_ns",
    "timens_offsets",
    "loginuid",
];
const NAMESPACES: &[&str] = &[
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid",
    "pid_for_children",
    "time",
    "time_for_children",
    "user",
    "uts",
];
/// Limits of cgroups, in v1 and v2.
const LIMITS: &[&str] = &[
    "pids.max",
    "memory.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.swappiness",
    "memory.oom_control",
    "memory.memsw.limit_in_bytes",
    "memory.kmem.limit_in_bytes",
    "memory.use_hierarchy",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.idle",
    "cpu.rt_runtime_us",
    "cpuset.cpus",
    "cpuset.mems",
    "cpuset.cpu_exclusive",
    "cpuset.memory_migrate",
    "devices.list",
    "freezer.state",
    "blkio.weight",
    "blkio.bfq.weight",
    "cgroup.freeze",
    "cgroup.type",
    "cgroup.subtree_control",
    "cgroup.max.depth",
    "notify_on_release",
    "cgroup.clone_children",
];

/// Adds what /proc/PID tells. `prefix` is put before each name.
pub fn process(facts: &mut Facts, prefix: &str, pid: i32, namespaces: &Path) {
    let at = PathBuf::from(format!("/proc/{pid}"));
    let read = |name: &str| {
        fs::read(at.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut tell = |name: &str, value: String| facts.insert(format!("{prefix}{name}"), value);
    for line in read("status").unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        if STATUS.contains(&name) {
            tell(name, value.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if name == "NSpid" {
            tell("depth of PID namespaces", value.split_whitespace().count().to_string());
        }
    }
    for name in FILES {
        match read(name) {
            Ok(text) if *name == "limits" => {
                for line in text.lines().skip(1) {
                    let words: Vec<&str> =
                        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
                    if let [name, soft, hard, ..] = words[..] {
                        tell(name, format!("{soft} {hard}"));
                    }
                }
            }
            Ok(text) => _ = tell(name, text.split_whitespace().collect::<Vec<_>>().join(" ")),
            Err(error) => _ = tell(name, error.kind().to_string()),
        }
    }
    for name in ["environ", "cmdline"] {
        tell(name, read(name).unwrap_or_default().replace('\0', "␀"));
    }
    for name in ["exe", "cwd", "root"] {
        let target = fs::read_link(at.join(name)).map(|target| target.display().to_string());
        tell(&format!("{name} from outside"), target.unwrap_or_default());
    }
    let stat = read("stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    // Fields 3 is the first one here (proc_pid_stat(5)): 7 is the terminal, 19 nice, 40 and 41 the scheduler.
    for (name, field) in
        [("terminal's number", 7), ("nice", 19), ("real-time priority", 40), ("scheduler", 41)]
    {
        let value = fields.get(field - 3).copied().unwrap_or_default();
        tell(name, if field == 7 { (value != "0").to_string() } else { value.to_owned() });
    }
    for name in NAMESPACES {
        let Ok(own) = fs::read_link(at.join("ns").join(name)) else { continue };
        let kind = own.to_string_lossy().into_owned();
        let host = fs::read_link(format!("/proc/self/ns/{name}"))
            .map(|link| link.to_string_lossy().into_owned());
        tell(&format!("namespace {name}"), origin(&kind, host.as_deref().ok(), namespaces));
    }
    descriptors(facts, prefix, &at);
}

/// Whose a namespace is: the host's, a pinned one, or a new one.
fn origin(link: &str, host: Option<&str>, namespaces: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    if host == Some(link) {
        return "host".to_owned();
    }
    let inode =
        link.split_once('[').and_then(|(_, rest)| rest.trim_end_matches(']').parse::<u64>().ok());
    let pinned = fs::read_dir(namespaces).into_iter().flatten().flatten();
    let found =
        pinned.filter(|entry| fs::metadata(entry.path()).ok().map(|meta| meta.ino()) == inode);
    found
        .map(|entry| format!("joined {}", entry.file_name().display()))
        .next()
        .unwrap_or_else(|| "new".to_owned())
}

fn descriptors(facts: &mut Facts, prefix: &str, at: &Path) {
    for entry in fs::read_dir(at.join("fd")).into_iter().flatten().flatten() {
        let number = entry.file_name().to_string_lossy().into_owned();
        let target =
            fs::read_link(entry.path()).map(|link| link.display().to_string()).unwrap_or_default();
        let info = fs::read_to_string(at.join("fdinfo").join(&number)).unwrap_or_default();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let what = target.split_once(":[").map_or(target.as_str(), |(kind, _)| kind);
        facts.insert(format!("{prefix}descriptor {number}"), format!("{what} {flags}"));
    }
}

/// Adds a container's mounts.
pub fn mounts(facts: &mut Facts, pid: i32, host: &[mountinfo::Mount], masks: &[String]) {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    facts.extend(mountinfo::facts(&mountinfo::parse(&text), host, masks));
}

/// Returns device rules (`c 10:229 rw`) with what the rules for all devices of the kind (`c *:* m`) permit in addition.
fn effective(rules: &[String]) -> Vec<String> {
    let parts = |rule: &str| {
        let (device, access) = rule.rsplit_once(' ')?;
        Some((device.to_owned(), access.to_owned()))
    };
    let parsed: Vec<(String, String)> = rules.iter().filter_map(|rule| parts(rule)).collect();
    let all = |kind: &str| {
        let whole = format!("{kind} *:*");
        parsed.iter().filter(move |(device, _)| *device == whole)
    };
    let full = |(device, access): &(String, String)| {
        let kind = device.split(' ').next().unwrap_or_default();
        let has = |letter: char| {
            access.contains(letter) || all(kind).any(|(_, more)| more.contains(letter))
        };
        let access: String = "rwm".chars().filter(|letter| has(*letter)).collect();
        format!("{device} {access}")
    };
    parsed.iter().map(full).collect()
}

/// Adds a container's cgroups, and their limits.
pub fn cgroups(facts: &mut Facts, pid: i32, view: View) {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let hierarchy = match (view, controllers) {
            (View::V2, "") => PathBuf::from("/sys/fs/cgroup"),
            (View::Hybrid, "") => PathBuf::from("/sys/fs/cgroup/unified"),
            // Hidden in this view.
            (View::V1, "") | (View::V2, _) => continue,
            (_, "name=systemd") => PathBuf::from("/sys/fs/cgroup/systemd"),
            (_, name) => Path::new("/sys/fs/cgroup").join(name),
        };
        let name = if controllers.is_empty() { "v2" } else { controllers };
        facts.insert(format!("cgroup {name}"), path.to_owned());
        let dir = hierarchy.join(path.trim_start_matches('/'));
        for limit in LIMITS {
            if let Ok(value) = fs::read_to_string(dir.join(limit)) {
                let mut lines: Vec<String> = value.trim().lines().map(str::to_owned).collect();
                if *limit == "devices.list" {
                    lines = effective(&lines);
                }
                lines.sort_unstable();
                let value = lines.join("; ");
                facts.insert(format!("cgroup {name} | {limit}"), value);
            }
        }
    }
}
