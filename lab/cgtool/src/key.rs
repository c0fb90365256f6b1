//! Translation of names and values between the cgroup v1 and v2 files.
//!
//! | cgroup v1 | cgroup v2 | how |
//! |---|---|---|
//! | memory.limit_in_bytes | memory.max | −1 is `max` |
//! | memory.soft_limit_in_bytes | memory.low | as runc maps a reservation |
//! | memory.memsw.limit_in_bytes | memory.swap.max | v1 counts memory and swap together: the difference |
//! | memory.usage_in_bytes, max_usage_in_bytes | memory.current, peak | |
//! | memory.failcnt | `max` of memory.events | read-only |
//! | cpu.shares | cpu.weight | runc's curve: 2 is 1, 1024 is 100, 262144 is 10000 |
//! | cpu.cfs_quota_us, cpu.cfs_period_us | the halves of cpu.max | |
//! | cpu.cfs_burst_us | cpu.max.burst | |
//! | cpuacct.usage, usage_user, usage_sys | usage_usec, user_usec, system_usec of cpu.stat | read-only; nanoseconds |
//! | cpuset.effective_cpus, effective_mems | cpuset.cpus.effective, mems.effective | |
//! | blkio.weight | io.weight | linearly, 10–1000 to 1–10000 |
//! | blkio.bfq.weight | io.bfq.weight | |
//! | blkio.throttle.{read,write}_{bps,iops}_device | {r,w}{bps,iops} of io.max | 0 is `max` |
//! | hugetlb.SIZE.{limit,usage}_in_bytes | hugetlb.SIZE.{max,current} | |
//! | freezer.state | cgroup.freeze | FROZEN is 1, THAWED is 0 |
//! | tasks | cgroup.threads | |
//!
//! All other files have the same name in both interfaces, or exist in one interface only; in the other interface, the
//! name is rejected. This module contains the names; [`translate`] converts the values, [`value`] compares them.

mod translate;
mod value;

pub use translate::{assign, show};
pub use value::{bytes, is_same, is_size};

use super::group::Version;
use spec::word;

/// A value to write to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assign {
    /// The file in the group's directory.
    pub file: String,
    /// The value.
    pub value: String,
}

/// A function that returns the content of a file of the same group. If the same command also sets that file, the
/// function returns the new content, and otherwise the present content.
pub type Present<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The conversion between the values of a v1 and a v2 file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Both files have the same value.
    Same,
    /// Bytes, or no limit.
    Limit,
    /// cpu.shares and cpu.weight.
    Shares,
    /// blkio.weight and io.weight.
    BlkioWeight,
    /// The first half of cpu.max, the quota.
    Quota,
    /// The second half of cpu.max, the period.
    Period,
    /// v1's limit of memory and swap together, and v2's limit of swap alone.
    Swap,
    /// One key of each line of io.max.
    Throttle(&'static str),
    /// THAWED and FROZEN.
    Freezer,
    /// A key of a v2 file, times a factor; read-only.
    Stat(&'static str, u64),
}

/// The v1 file, the equivalent v2 file, and the conversion.
const TABLE: &[(&str, &str, How)] = &[
    ("memory.limit_in_bytes", "memory.max", How::Limit),
    ("memory.soft_limit_in_bytes", "memory.low", How::Limit),
    ("memory.memsw.limit_in_bytes", "memory.swap.max", How::Swap),
    ("memory.usage_in_bytes", "memory.current", How::Same),
    ("memory.max_usage_in_bytes", "memory.peak", How::Same),
    ("memory.failcnt", "memory.events", How::Stat("max", 1)),
    ("cpu.shares", "cpu.weight", How::Shares),
    ("cpu.cfs_quota_us", "cpu.max", How::Quota),
    ("cpu.cfs_period_us", "cpu.max", How::Period),
    ("cpu.cfs_burst_us", "cpu.max.burst", How::Same),
    ("cpuacct.usage", "cpu.stat", How::Stat("usage_usec", 1000)),
    ("cpuacct.usage_user", "cpu.stat", How::Stat("user_usec", 1000)),
    ("cpuacct.usage_sys", "cpu.stat", How::Stat("system_usec", 1000)),
    ("cpuset.effective_cpus", "cpuset.cpus.effective", How::Same),
    ("cpuset.effective_mems", "cpuset.mems.effective", How::Same),
    ("blkio.weight", "io.weight", How::BlkioWeight),
    ("blkio.bfq.weight", "io.bfq.weight", How::Same),
    ("blkio.throttle.read_bps_device", "io.max", How::Throttle("rbps")),
    ("blkio.throttle.write_bps_device", "io.max", How::Throttle("wbps")),
    ("blkio.throttle.read_iops_device", "io.max", How::Throttle("riops")),
    ("blkio.throttle.write_iops_device", "io.max", How::Throttle("wiops")),
    ("freezer.state", "cgroup.freeze", How::Freezer),
    ("tasks", "cgroup.threads", How::Same),
];

/// Files that exist on cgroup v1 only, and the reason why cgroup v2 has no such file. A name that ends in a dot or an
/// underscore is a prefix.
const ONLY_V1: &[(&str, &str)] = &[
    ("memory.kmem.", "the kernel's memory counts as the group's there; set memory.max"),
    ("memory.swappiness", "it is the host's alone there (vm.swappiness)"),
    ("memory.oom_control", "the OOM killer can't be turned off there; see memory.oom.group"),
    ("memory.use_hierarchy", "every group is hierarchical there"),
    ("memory.move_charge_at_immigrate", "memory stays charged where it was first used"),
    ("memory.force_empty", "write bytes to memory.reclaim"),
    ("memory.memsw.", "only the limit has a counterpart, memory.swap.max"),
    ("cpu.rt_", "it doesn't control realtime processes"),
    ("cpuacct.", "CPU time is in cpu.stat there"),
    ("cpuset.memory_migrate", "memory always moves when cpuset.mems changes there"),
    ("cpuset.cpu_exclusive", "use cpuset.cpus.partition"),
    ("cpuset.mem_exclusive", "it has no exclusive memory nodes"),
    ("cpuset.mem_hardwall", "it has no exclusive memory nodes"),
    ("cpuset.sched_load_balance", "use cpuset.cpus.partition"),
    ("cpuset.sched_relax_domain_level", "it has no such knob"),
    ("cpuset.memory_spread_", "it has no such knob"),
    ("cpuset.memory_pressure", "see memory.pressure"),
    ("blkio.leaf_weight", "only leaves have processes there"),
    ("blkio.", "only weight and throttling have counterparts, io.weight and io.max"),
    ("devices.", "devices are decided by an eBPF program there, as \"dayfly run\" loads it"),
    (
        "net_cls.",
        "firewalls match the group's path there: nft \"socket cgroupv2\", iptables -m cgroup --path",
    ),
    (
        "net_prio.",
        "firewalls match the group's path there: nft \"socket cgroupv2\", then meta priority",
    ),
    ("notify_on_release", "cgroup.events tells there"),
    ("release_agent", "cgroup.events tells there"),
    ("cgroup.clone_children", "children have what their parents have there"),
];

/// Files that exist on cgroup v2 only, in the same form.
const ONLY_V2: &[(&str, &str)] = &[
    ("memory.high", "nothing throttles there; set memory.limit_in_bytes"),
    (
        "memory.min",
        "nothing is protected for certain there; memory.soft_limit_in_bytes is the nearest",
    ),
    ("memory.oom.group", "the OOM killer takes one process there"),
    ("memory.events", "memory.failcnt and memory.oom_control tell there"),
    ("memory.swap.", "memory and swap are limited together there: memory.memsw.limit_in_bytes"),
    ("memory.zswap.", "it is not limited there"),
    ("memory.pressure", "pressure is told of whole hosts and cgroup v2"),
    ("cpu.pressure", "pressure is told of whole hosts and cgroup v2"),
    ("io.pressure", "pressure is told of whole hosts and cgroup v2"),
    ("cpu.weight.nice", "set cpu.shares"),
    ("cpuset.cpus.partition", "use cpuset.cpu_exclusive and cpuset.sched_load_balance"),
    ("cpuset.cpus.exclusive", "use cpuset.cpu_exclusive"),
    ("io.latency", "there is no such control there"),
    ("io.cost.", "there is no such control there"),
    ("io.prio.class", "it is of cgroup v2 and, as blkio.prio.class, of some v1 kernels"),
    ("io.stat", "see blkio.throttle.io_service_bytes"),
    ("io.", "only io.weight and io.max have counterparts, blkio.weight and blkio.throttle.*"),
    ("cgroup.", "it is a matter of cgroup v2 alone"),
];

/// Names to suggest for misspelt ones, in addition to the names in the other tables.
const COMMON: &[&str] = &[
    "memory.stat",
    "memory.numa_stat",
    "memory.reclaim",
    "memory.high",
    "memory.low",
    "memory.min",
    "memory.swap.max",
    "memory.swap.high",
    "memory.oom.group",
    "cpu.stat",
    "cpu.idle",
    "cpu.max",
    "cpu.uclamp.min",
    "cpu.uclamp.max",
    "cpuset.cpus",
    "cpuset.mems",
    "io.max",
    "io.latency",
    "pids.max",
    "pids.current",
    "pids.peak",
    "rdma.max",
    "rdma.current",
    "misc.max",
    "misc.current",
    "cgroup.procs",
    "cgroup.freeze",
    "cgroup.kill",
    "cgroup.max.depth",
    "cgroup.max.descendants",
    "devices.allow",
    "devices.deny",
    "net_cls.classid",
    "net_prio.ifpriomap",
];

/// Returns the controller that a file belongs to, by the file's name.
#[must_use]
pub fn controller(key: &str) -> &str {
    match key.split('.').next().unwrap_or(key) {
        "blkio" => "blkio",
        "tasks" | "notify_on_release" | "release_agent" => "cgroup",
        name => name,
    }
}

/// Returns the controllers whose hierarchies may have the file, the v1 controller first.
#[must_use]
pub fn homes(key: &str) -> Vec<&str> {
    match controller(key) {
        "blkio" | "io" => vec!["blkio", "io"],
        "cpuacct" => vec!["cpuacct", "cpu"],
        "cgroup" if key == "cgroup.freeze" => vec!["freezer", "cgroup"],
        "freezer" => vec!["freezer", "cgroup"],
        "net_cls" | "net_prio" | "devices" | "perf_event" => vec![controller(key), "cgroup"],
        name => vec![name],
    }
}

/// Returns the known name nearest to a misspelt one, if one is near enough; `files` are the files of the group.
#[must_use]
pub fn nearest<'a>(key: &str, files: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known = TABLE.iter().flat_map(|(v1, v2, _)| [*v1, *v2]).chain(COMMON.iter().copied());
    let only = ONLY_V1.iter().chain(ONLY_V2).map(|(name, _)| *name);
    let all = known.chain(only.filter(|name| !name.ends_with(['.', '_']))).map(str::to_owned);
    let all = all.chain(files.into_iter().map(str::to_owned));
    word::nearest(key, all)
}

/// Returns whether a key is known, whatever files the group has.
#[must_use]
pub fn is_known(key: &str) -> bool {
    TABLE.iter().any(|(v1, v2, _)| key == *v1 || key == *v2)
        || COMMON.contains(&key)
        || hugetlb(key, Version::V1).is_some()
        || hugetlb(key, Version::V2).is_some()
        || ONLY_V1.iter().chain(ONLY_V2).any(|(name, _)| *name == key)
        || key.starts_with("memory.kmem.")
}

fn refuse(key: &str, version: Version) -> Result<(), String> {
    let (only, here) = match version {
        Version::V2 => (ONLY_V1, "v2"),
        Version::V1 => (ONLY_V2, "v1"),
    };
    let is_translated = TABLE.iter().any(|(v1, v2, _)| match version {
        Version::V2 => *v1 == key,
        Version::V1 => *v2 == key && *v1 != "tasks",
    });
    if is_translated {
        return Ok(());
    }
    let covers = |name: &str| {
        if name.ends_with(['.', '_']) { key.starts_with(name) } else { key == name }
    };
    // Every v1 hierarchy has these two files.
    let everywhere =
        version == Version::V1 && matches!(key, "cgroup.procs" | "cgroup.clone_children");
    match only.iter().find(|(name, _)| covers(name)).filter(|_| !everywhere) {
        Some((_, reason)) => Err(format!("cgroup {here} has no {key}: {reason}")),
        None => Ok(()),
    }
}

fn throttle(name: &str) -> &'static str {
    ["rbps", "wbps", "riops", "wiops"].into_iter().find(|key| *key == name).unwrap_or("")
}

/// Translates `hugetlb.2MB.limit_in_bytes` or `hugetlb.2MB.max` to the name on this cgroup version.
fn hugetlb(key: &str, version: Version) -> Option<String> {
    let rest = key.strip_prefix("hugetlb.")?;
    let (size, what) = rest.split_once('.')?;
    let (what, reserved) = match what.strip_prefix("rsvd.") {
        Some(what) => (what, "rsvd."),
        None => (what, ""),
    };
    let what = match (what, version) {
        ("limit_in_bytes" | "max", Version::V1) => "limit_in_bytes",
        ("limit_in_bytes" | "max", Version::V2) => "max",
        ("usage_in_bytes" | "current", Version::V1) => "usage_in_bytes",
        ("usage_in_bytes" | "current", Version::V2) => "current",
        _ => return None,
    };
    Some(format!("hugetlb.{size}.{reserved}{what}"))
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
