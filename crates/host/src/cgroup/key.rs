//! The names and values of cgroup files: either interface's, made into the other's.
//!
//! | cgroup v1 | cgroup v2 | how |
//! |---|---|---|
//! | memory.limit_in_bytes | memory.max | −1 is `max` |
//! | memory.soft_limit_in_bytes | memory.low | as runc maps a reservation |
//! | memory.memsw.limit_in_bytes | memory.swap.max | v1 counts memory and swap together: the difference |
//! | memory.usage_in_bytes, max_usage_in_bytes | memory.current, peak | |
//! | memory.failcnt | `max` of memory.events | reading |
//! | cpu.shares | cpu.weight | runc's curve: 2 is 1, 1024 is 100, 262144 is 10000 |
//! | cpu.cfs_quota_us, cpu.cfs_period_us | the halves of cpu.max | |
//! | cpu.cfs_burst_us | cpu.max.burst | |
//! | cpuacct.usage, usage_user, usage_sys | usage_usec, user_usec, system_usec of cpu.stat | reading; nanoseconds |
//! | cpuset.effective_cpus, effective_mems | cpuset.cpus.effective, mems.effective | |
//! | blkio.weight | io.weight | linearly, 10–1000 to 1–10000 |
//! | blkio.bfq.weight | io.bfq.weight | |
//! | blkio.throttle.{read,write}_{bps,iops}_device | {r,w}{bps,iops} of io.max | 0 is `max` |
//! | hugetlb.SIZE.{limit,usage}_in_bytes | hugetlb.SIZE.{max,current} | |
//! | freezer.state | cgroup.freeze | FROZEN is 1, THAWED is 0 |
//! | tasks | cgroup.threads | |
//!
//! All else has one name in both, or is of one alone and refused on the other by name.

use super::group::Version;
use ::cgroup::weight::{blkio_weight, cpu_shares, cpu_weight, io_weight};

/// A value for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assign {
    /// The file in the group's directory.
    pub file: String,
    /// What is written to it.
    pub value: String,
}

/// What a file of the same group holds now, or will once other values are set.
pub type Present<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How a v1 file's value becomes a v2 file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The same value.
    Same,
    /// Bytes, or none at all.
    Limit,
    /// cpu.shares and cpu.weight.
    Shares,
    /// blkio.weight and io.weight.
    BlkioWeight,
    /// The first half of cpu.max.
    Quota,
    /// The second half of cpu.max.
    Period,
    /// Memory and swap together, or swap alone.
    Swap,
    /// One key of each line of io.max.
    Throttle(&'static str),
    /// THAWED and FROZEN.
    Freezer,
    /// A key of a v2 file, times a factor; can't be set.
    Stat(&'static str, u64),
}

/// A v1 file, the v2 file that does the same, and how.
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

/// Files that only one interface has, and why the other refuses them. A name that ends in a dot
/// stands for all that begin with it.
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

/// Names for "did you mean", beside those of the tables.
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

/// The controller of a file, as it is called on this interface.
#[must_use]
pub fn controller(key: &str) -> &str {
    match key.split('.').next().unwrap_or(key) {
        "blkio" => "blkio",
        "tasks" | "notify_on_release" | "release_agent" => "cgroup",
        name => name,
    }
}

/// The controllers under which a key's group may be found, its own name first.
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

/// What is written where to set `key` to `value` on this interface.
///
/// # Errors
/// What is wrong, in a sentence: a key that this interface does not have, a value that makes no sense.
pub fn assign(
    key: &str,
    value: &str,
    version: Version,
    present: Present<'_>,
) -> Result<Vec<Assign>, String> {
    let value = value.trim();
    refuse(key, version)?;
    match version {
        Version::V2 => to_v2(key, value, present),
        Version::V1 => to_v1(key, value, present),
    }
}

/// The value of `key` on this interface, put together from what `present` says of its files.
///
/// # Errors
/// A key that this interface does not have. `Ok(None)` if the file is not there.
pub fn show(key: &str, version: Version, present: Present<'_>) -> Result<Option<String>, String> {
    refuse(key, version)?;
    if let Some(name) = hugetlb(key, version) {
        return Ok(present(&name));
    }
    let of_v1 = TABLE.iter().find(|(v1, _, _)| *v1 == key);
    let of_v2: Vec<_> = TABLE.iter().filter(|(_, v2, _)| *v2 == key).collect();
    match (version, of_v1, of_v2.as_slice()) {
        (Version::V2, Some((_, file, how)), _) => {
            let Some(text) = present(file) else { return Ok(None) };
            Ok(Some(as_v1(&text, *how, present)))
        }
        (Version::V1, None, [(_, _, How::Quota), ..]) => {
            let (quota, period) = (present("cpu.cfs_quota_us"), present("cpu.cfs_period_us"));
            let (Some(quota), Some(period)) = (quota, period) else { return Ok(None) };
            let quota = if quota.trim() == "-1" { "max" } else { quota.trim() };
            Ok(Some(format!("{quota} {}", period.trim())))
        }
        (Version::V1, None, [(_, _, How::Throttle(_)), ..]) => Ok(Some(io_max_of_v1(present))),
        (Version::V1, None, [(file, _, how), ..]) => {
            let Some(text) = present(file) else { return Ok(None) };
            Ok(Some(as_v2(&text, *how, present)))
        }
        _ => Ok(present(key)),
    }
}

/// Whether the value in a file is what was to be written: sizes rounded to pages, lists in other
/// words, one device's line among several.
#[must_use]
pub fn is_same(file: &str, wanted: &str, present: &str) -> bool {
    let (wanted, present) = (wanted.trim(), present.trim());
    if wanted == present {
        return true;
    }
    if matches!(file, "cpuset.cpus" | "cpuset.mems") {
        let lists = (::cgroup::List::parse(wanted), ::cgroup::List::parse(present));
        return matches!(lists, (Some(one), Some(other)) if one == other);
    }
    if is_size(file) {
        const PAGE: u64 = 4096;
        let pages = |text| bytes(text).map(|bytes| bytes.map(|bytes| bytes / PAGE));
        return matches!((pages(wanted), pages(present)), (Ok(one), Ok(other)) if one == other);
    }
    if file == "cpu.max" {
        let words: Vec<&str> = present.split(' ').collect();
        return words.first() == Some(&wanted);
    }
    if let Some((device, wanted)) =
        wanted.split_once(' ').filter(|(device, _)| device.contains(':'))
    {
        let line = present.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
        let Some(line) = line else {
            // A limit that is lifted has no line.
            return wanted == "0" || wanted.split(' ').all(|word| word.ends_with("=max"));
        };
        return wanted.split(' ').all(|word| line.split(' ').any(|other| other == word));
    }
    // io.weight reads "default 100".
    present.strip_prefix("default ").is_some_and(|rest| rest.lines().next() == Some(wanted))
}

/// Whether a file holds a size that the kernel rounds to pages.
#[must_use]
pub fn is_size(file: &str) -> bool {
    let memory = ["max", "low", "high", "min", "limit_in_bytes"];
    let last = file.rsplit('.').next().unwrap_or(file);
    let is_limit = memory.contains(&last) || last.ends_with("limit_in_bytes");
    (file.starts_with("memory.") || file.starts_with("hugetlb.")) && is_limit
}

/// A size: bytes, with K, M, G or T for powers of 1024; `None` for `max` and −1.
///
/// # Errors
/// What is wrong with it.
pub fn bytes(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if matches!(text, "max" | "-1") {
        return Ok(None);
    }
    let wrong = || format!("{text:?} is no size: give bytes, or a number with K, M, G or T");
    let upper = text.to_ascii_uppercase();
    let upper = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let shift = match upper.as_bytes().last() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => 0,
    };
    let digits = if shift == 0 { upper } else { &upper[..upper.len() - 1] };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    // What v1 shows for "no limit": the most pages a 64-bit counter has.
    Ok((bytes < 0x7fff_ffff_ffff_f000).then_some(bytes))
}

/// The known name nearest to a misspelt one, if there is one near enough; `files` are those of the
/// group at hand.
#[must_use]
pub fn nearest<'a>(key: &str, files: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known = TABLE.iter().flat_map(|(v1, v2, _)| [*v1, *v2]).chain(COMMON.iter().copied());
    let only = ONLY_V1.iter().chain(ONLY_V2).map(|(name, _)| *name);
    let all = known.chain(only.filter(|name| !name.ends_with(['.', '_']))).map(str::to_owned);
    let all = all.chain(files.into_iter().map(str::to_owned));
    super::word::nearest(key, all)
}

/// Whether a key is one that this tool knows without looking at a group.
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
    // Files of these names are in every v1 hierarchy.
    let everywhere =
        version == Version::V1 && matches!(key, "cgroup.procs" | "cgroup.clone_children");
    match only.iter().find(|(name, _)| covers(name)).filter(|_| !everywhere) {
        Some((_, reason)) => Err(format!("cgroup {here} has no {key}: {reason}")),
        None => Ok(()),
    }
}

fn one(file: &str, value: impl Into<String>) -> Result<Vec<Assign>, String> {
    Ok(vec![Assign { file: file.to_owned(), value: value.into() }])
}

fn to_v2(key: &str, value: &str, present: Present<'_>) -> Result<Vec<Assign>, String> {
    if let Some(name) = hugetlb(key, Version::V2) {
        return one(&name, limit(value, "max")?);
    }
    let Some((_, file, how)) = TABLE.iter().find(|(v1, _, _)| *v1 == key) else {
        return if is_size(key) { one(key, limit(value, "max")?) } else { one(key, value) };
    };
    match how {
        How::Same => one(file, value),
        How::Limit => one(file, limit(value, "max")?),
        How::Shares => {
            let weight = cpu_weight(number(key, value)?).ok_or("cpu.shares: 0 is not a share")?;
            one(file, weight.to_string())
        }
        How::BlkioWeight => {
            let weight =
                u16::try_from(number(key, value)?).ok().filter(|n| (10..=1000).contains(n));
            let weight = weight.and_then(io_weight);
            one(file, weight.ok_or("blkio.weight: from 10 to 1000")?.to_string())
        }
        // A quota alone leaves the period as it is.
        How::Quota => one(file, limit(value, "max")?),
        How::Period => {
            let present = present(file).unwrap_or_default();
            let quota = present.split_whitespace().next().unwrap_or("max");
            one(file, format!("{quota} {}", number(key, value)?))
        }
        How::Swap => {
            let memory = present("memory.max").unwrap_or_default();
            match (bytes(value)?, bytes(&memory).unwrap_or(None)) {
                (None, _) => one(file, "max"),
                (Some(_), None) => Err(format!(
                    "{key} limits memory and swap together, and there is no limit of memory to take \
                     from it: set memory.limit_in_bytes first"
                )),
                (Some(both), Some(memory)) if both < memory => {
                    Err(format!("{key}: {both} is less than the limit of memory alone, {memory}"))
                }
                (Some(both), Some(memory)) => one(file, (both - memory).to_string()),
            }
        }
        How::Throttle(name) => {
            let (device, rate) = device(key, value)?;
            let rate = if rate == "0" { "max" } else { rate };
            one(file, format!("{device} {name}={rate}"))
        }
        How::Freezer => match value {
            "FROZEN" => one(file, "1"),
            "THAWED" => one(file, "0"),
            _ => Err(format!("{key}: FROZEN or THAWED, not {value:?}")),
        },
        How::Stat(..) => Err(format!("{key} can't be set on cgroup v2")),
    }
}

fn to_v1(key: &str, value: &str, present: Present<'_>) -> Result<Vec<Assign>, String> {
    if let Some(name) = hugetlb(key, Version::V1) {
        return one(&name, limit(value, "-1")?);
    }
    let rows: Vec<_> =
        TABLE.iter().filter(|(_, v2, _)| *v2 == key && key != "cgroup.threads").collect();
    let Some((file, _, how)) = rows.first() else {
        return if is_size(key) { one(key, limit(value, "-1")?) } else { one(key, value) };
    };
    match how {
        How::Same => one(file, value),
        How::Limit => one(file, limit(value, "-1")?),
        How::Shares => one(file, cpu_shares(number(key, value)?).to_string()),
        How::BlkioWeight => {
            one(file, blkio_weight(number(key, value.trim_start_matches("default "))?).to_string())
        }
        How::Quota | How::Period => {
            let mut words = value.split_whitespace();
            let quota = limit(words.next().unwrap_or_default(), "-1")?;
            let mut all = one("cpu.cfs_quota_us", quota)?;
            if let Some(period) = words.next() {
                let period = number(key, period)?.to_string();
                all.insert(0, Assign { file: "cpu.cfs_period_us".to_owned(), value: period });
            }
            Ok(all)
        }
        How::Swap => match (bytes(value)?, present("memory.limit_in_bytes")) {
            (None, _) => one(file, "-1"),
            (Some(swap), Some(memory)) => match bytes(&memory)? {
                Some(memory) => one(file, memory.saturating_add(swap).to_string()),
                None => Err(format!(
                    "{key}: cgroup v1 limits memory and swap together, and there is no limit of \
                     memory: set memory.max first"
                )),
            },
            (Some(_), None) => Err(format!("{key}: this kernel does not account for swap")),
        },
        How::Throttle(_) => {
            let (device, _) = device(key, value)?;
            let mut all = Vec::new();
            for word in value.split_whitespace().skip(1) {
                let (name, rate) =
                    word.split_once('=').ok_or_else(|| format!("{key}: {word:?}"))?;
                let row = rows.iter().find(|(_, _, how)| *how == How::Throttle(throttle(name)));
                let (file, _, _) =
                    row.ok_or_else(|| format!("{key}: {name:?} is not a key of io.max"))?;
                let rate = if rate == "max" { "0" } else { rate };
                all.push(Assign { file: (*file).to_owned(), value: format!("{device} {rate}") });
            }
            Ok(all)
        }
        How::Freezer => match value {
            "1" => one(file, "FROZEN"),
            "0" => one(file, "THAWED"),
            _ => Err(format!("{key}: 0 or 1, not {value:?}")),
        },
        How::Stat(..) => Err(format!("{key} can't be set")),
    }
}

/// What a v2 file says, as its v1 counterpart would.
fn as_v1(text: &str, how: How, present: Present<'_>) -> String {
    let text = text.trim();
    let minus_one = |text: &str| if text == "max" { "-1".to_owned() } else { text.to_owned() };
    match how {
        How::Limit => minus_one(text),
        How::Shares => text.parse().map_or_else(|_| text.to_owned(), |w| cpu_shares(w).to_string()),
        How::BlkioWeight => {
            let first = text.lines().next().unwrap_or_default().trim_start_matches("default ");
            first.parse().map_or_else(|_| text.to_owned(), |w| blkio_weight(w).to_string())
        }
        How::Quota => minus_one(text.split(' ').next().unwrap_or_default()),
        How::Period => text.split(' ').nth(1).unwrap_or_default().to_owned(),
        How::Swap => {
            let memory = present("memory.max").unwrap_or_default();
            match (bytes(text), bytes(&memory)) {
                (Ok(Some(swap)), Ok(Some(memory))) => (swap + memory).to_string(),
                _ => "-1".to_owned(),
            }
        }
        How::Throttle(key) => {
            let line = |line: &str| {
                let (device, rest) = line.split_once(' ')?;
                let rate = rest.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('='))?;
                (rate != "max").then(|| format!("{device} {rate}"))
            };
            text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
        }
        How::Freezer => if text == "1" { "FROZEN" } else { "THAWED" }.to_owned(),
        How::Stat(key, factor) => {
            let value =
                text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
            value.unwrap_or(0).saturating_mul(factor).to_string()
        }
        How::Same => text.to_owned(),
    }
}

/// What a v1 file says, as its v2 counterpart would.
fn as_v2(text: &str, how: How, present: Present<'_>) -> String {
    let text = text.trim();
    let or_max = |value: Result<Option<u64>, String>| match value {
        Ok(Some(bytes)) => bytes.to_string(),
        Ok(None) => "max".to_owned(),
        Err(_) => text.to_owned(),
    };
    match how {
        How::Limit => or_max(bytes(text)),
        How::Shares => {
            let weight = text.parse().ok().and_then(cpu_weight);
            weight.map_or_else(|| text.to_owned(), |weight| weight.to_string())
        }
        How::BlkioWeight => {
            let weight = text.parse().ok().and_then(io_weight);
            weight.map_or_else(|| text.to_owned(), |weight| format!("default {weight}"))
        }
        How::Swap => {
            let memory = present("memory.limit_in_bytes").unwrap_or_default();
            match (bytes(text), bytes(&memory)) {
                (Ok(Some(both)), Ok(Some(memory))) => both.saturating_sub(memory).to_string(),
                _ => "max".to_owned(),
            }
        }
        How::Freezer => if text == "THAWED" { "0" } else { "1" }.to_owned(),
        _ => text.to_owned(),
    }
}

fn io_max_of_v1(present: Present<'_>) -> String {
    let mut devices: std::collections::BTreeMap<String, Vec<String>> = Default::default();
    for (file, _, how) in TABLE {
        let How::Throttle(key) = how else { continue };
        for line in present(file).unwrap_or_default().lines() {
            if let Some((device, rate)) = line.split_once(' ') {
                devices.entry(device.to_owned()).or_default().push(format!("{key}={rate}"));
            }
        }
    }
    let line = |(device, limits): (String, Vec<String>)| format!("{device} {}", limits.join(" "));
    devices.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

fn throttle(name: &str) -> &'static str {
    ["rbps", "wbps", "riops", "wiops"].into_iter().find(|key| *key == name).unwrap_or("")
}

/// `hugetlb.2MB.limit_in_bytes` and `hugetlb.2MB.max`, by their name on this interface.
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

/// A size or quota with `none` for no limit, in plain bytes.
fn limit(value: &str, none: &str) -> Result<String, String> {
    Ok(bytes(value)?.map_or_else(|| none.to_owned(), |bytes| bytes.to_string()))
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    value.trim().parse().map_err(|_| format!("{key}: {value:?} is not a number"))
}

/// `MAJOR:MINOR REST`.
fn device<'a>(key: &str, value: &'a str) -> Result<(&'a str, &'a str), String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = value.split_once(' ').filter(|(device, _)| {
        device.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
    });
    parts.ok_or_else(|| format!("{key}: MAJOR:MINOR and a rate, not {value:?}"))
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
