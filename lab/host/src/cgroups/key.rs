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
//! name is rejected. The names are in `key/files.toml`; [`translate`] converts the values, [`value`] compares them.

mod translate;
mod value;

pub use translate::{assign, show};
pub use value::{bytes, is_same, is_size};

use super::group::Version;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

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
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    Throttle(String),
    /// THAWED and FROZEN.
    Freezer,
    /// A key of a v2 file, times a factor; read-only.
    Stat(String, u64),
}

/// A v1 file, its counterpart on v2, and the conversion.
#[derive(Debug, Deserialize)]
struct Row {
    v1: String,
    v2: String,
    how: How,
}

impl Row {
    /// Returns the file's names on this cgroup version, and on the other one.
    fn names(&self, version: Version) -> [&str; 2] {
        match version {
            Version::V1 => [&self.v1, &self.v2],
            Version::V2 => [&self.v2, &self.v1],
        }
    }
}

/// A writable file.
#[derive(Debug, Deserialize)]
pub struct Settable {
    /// The file's name.
    pub file: String,
    /// Its content in a new group; `None` for the parent group's.
    pub new: Option<String>,
}

/// `files.toml`, which describes the fields.
#[derive(Debug, Deserialize)]
struct Files {
    translated: Vec<Row>,
    common: Vec<String>,
    settable: Vec<Settable>,
    only_v1: BTreeMap<String, String>,
    only_v2: BTreeMap<String, String>,
}

static FILES: LazyLock<Files> =
    LazyLock::new(|| toml::from_str(include_str!("key/files.toml")).expect("files.toml"));

/// Returns the writable files of cgroup v1 and v2, in the order in which they are set.
pub fn settable() -> &'static [Settable] {
    &FILES.settable
}

/// Returns the controller that a file belongs to, by the file's name.
pub fn controller(key: &str) -> &str {
    match key.split('.').next().unwrap_or(key) {
        "tasks" | "notify_on_release" | "release_agent" => "cgroup",
        name => name,
    }
}

/// Returns the controllers whose hierarchies may have the file, the v1 controller first.
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

/// Iterates over the names of files that are known on any host.
pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    let both = FILES.translated.iter().flat_map(|row| row.names(Version::V1));
    let only = FILES.only_v1.keys().chain(FILES.only_v2.keys());
    let all = both.chain(FILES.common.iter().chain(only).map(String::as_str));
    all.filter(|name| !name.ends_with(['.', '_']))
}

/// Returns whether a key is known, whatever files the group has.
pub fn is_known(key: &str) -> bool {
    let hugetlb = hugetlb(key, Version::V1).is_some();
    hugetlb || key.starts_with("memory.kmem.") || names().any(|name| name == key)
}

/// Returns the rows whose file has this name on the other cgroup version.
fn translated(key: &str, version: Version) -> impl Iterator<Item = &'static Row> {
    // Every v2 group has cgroup.threads, but not every v1 hierarchy is for threads.
    FILES
        .translated
        .iter()
        .filter(move |row| row.names(version)[1] == key && key != "cgroup.threads")
}

fn refuse(key: &str, version: Version) -> Result<(), String> {
    let (only, here) = match version {
        Version::V2 => (&FILES.only_v1, "v2"),
        Version::V1 => (&FILES.only_v2, "v1"),
    };
    // Every v1 hierarchy has these two files.
    let everywhere =
        version == Version::V1 && matches!(key, "cgroup.procs" | "cgroup.clone_children");
    if everywhere || translated(key, version).next().is_some() {
        return Ok(());
    }
    let covers = |name: &str| match name.ends_with(['.', '_']) {
        true => key.starts_with(name),
        false => key == name,
    };
    match only.iter().filter(|(name, _)| covers(name)).max_by_key(|(name, _)| name.len()) {
        Some((_, reason)) => Err(format!("cgroup {here} has no {key}: {reason}")),
        None => Ok(()),
    }
}

/// Translates `hugetlb.2MB.limit_in_bytes` or `hugetlb.2MB.max` to the name on this cgroup version.
fn hugetlb(key: &str, version: Version) -> Option<String> {
    let rest = key.strip_prefix("hugetlb.")?;
    let (size, what) = rest.split_once('.')?;
    let (reserved, what) = what.strip_prefix("rsvd.").map_or(("", what), |what| ("rsvd.", what));
    let mut pairs = [("limit_in_bytes", "max"), ("usage_in_bytes", "current")].into_iter();
    let (v1, v2) = pairs.find(|(v1, v2)| [*v1, *v2].contains(&what))?;
    let what = if version == Version::V1 { v1 } else { v2 };
    Some(format!("hugetlb.{size}.{reserved}{what}"))
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
