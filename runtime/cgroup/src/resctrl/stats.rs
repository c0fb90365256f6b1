//! The statistics of a container's resctrl group, in the format that `runc events` prints
//! (Documentation/filesystems/resctrl.rst).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fs::{Access, CWD, Dir, access};
use serde::Serialize;
use sys::fs::open_dir;
use sys::{Context, Errno};

use crate::resctrl::{Error, Group};
use crate::stats::is_default;

/// The limits and the usage of cache and memory bandwidth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// The features of level 3 cache allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_cache_info: Option<CacheInfo>,
    /// The cache limits of the default group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub l3_cache_schema_root: String,
    /// The cache limits of the container's group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub l3_cache_schema: String,
    /// The features of memory bandwidth allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_bw_info: Option<BandwidthInfo>,
    /// The memory bandwidth limits of the default group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mem_bw_schema_root: String,
    /// The memory bandwidth limits of the container's group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mem_bw_schema: String,
    /// All limits of the container's group, one per line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemata: Vec<String>,
    /// The bytes transferred from and to memory, for each cache domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbm_stats: Option<Vec<BandwidthUse>>,
    /// The bytes of cache in use, for each cache domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmt_stats: Option<Vec<CacheUse>>,
}

/// The contents of the directory `info/L3`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "each is the file of that name in resctrl.rst")]
pub struct CacheInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cbm_mask: String,
    #[serde(skip_serializing_if = "is_default")]
    pub min_cbm_bits: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub num_closids: u64,
}

/// The contents of the directory `info/MB`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "each is the file of that name in resctrl.rst")]
pub struct BandwidthInfo {
    #[serde(skip_serializing_if = "is_default")]
    pub bandwidth_gran: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub delay_linear: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub min_bandwidth: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub num_closids: u64,
}

/// The bytes transferred between one cache domain and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BandwidthUse {
    /// The bytes transferred from and to all memory.
    pub mbm_total_bytes: u64,
    /// The bytes transferred from and to the domain's own memory.
    pub mbm_local_bytes: u64,
}

/// The bytes in the cache of one cache domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CacheUse {
    /// The bytes in the last level cache (LLC).
    pub llc_occupancy: u64,
}

impl Group {
    /// Reads the limits and the usage. Values of features that the hardware does not have are left out.
    ///
    /// # Errors
    /// If a system call fails, or if a file does not have the documented format ([`Error::Unreadable`]).
    pub fn stats(&self) -> Result<Stats, Error> {
        let info = |resource: &str| format!("{}/info/{resource}", self.root());
        let is_there = |directory: &String| access(directory.as_str(), Access::EXISTS).is_ok();
        let root = read(self.root(), "schemata")?;
        let own = read(self.class(), "schemata")?;
        let mut stats = Stats {
            schemata: own.trim().split('\n').map(str::to_string).collect(),
            ..Stats::default()
        };
        let cache = info("L3");
        if is_there(&cache) {
            stats.l3_cache_schema_root = last_about(&root, "L3");
            stats.l3_cache_schema = last_about(&own, "L3");
            stats.l3_cache_info = Some(CacheInfo {
                cbm_mask: read(&cache, "cbm_mask")?.trim().to_string(),
                min_cbm_bits: number(&cache, "min_cbm_bits")?,
                num_closids: number(&cache, "num_closids")?,
            });
        }
        let bandwidth = info("MB");
        if is_there(&bandwidth) {
            stats.mem_bw_schema_root = last_about(&root, "MB");
            stats.mem_bw_schema = last_about(&own, "MB");
            stats.mem_bw_info = Some(BandwidthInfo {
                bandwidth_gran: number(&bandwidth, "bandwidth_gran")?,
                delay_linear: number(&bandwidth, "delay_linear")?,
                min_bandwidth: number(&bandwidth, "min_bandwidth")?,
                num_closids: number(&bandwidth, "num_closids")?,
            });
        }
        if let Ok(features) = read(&info("L3_MON"), "mon_features") {
            self.add_use(&mut stats, &features)?;
        }
        Ok(stats)
    }

    /// Adds the counters of the monitoring group or, if there is none, those of the class.
    fn add_use(&self, stats: &mut Stats, features: &str) -> Result<(), Error> {
        let data = format!("{}/mon_data", self.monitor().unwrap_or(self.class()));
        let has = |feature: &str| features.lines().any(|line| line == feature);
        let count = |domain: &str, file: &str| match has(file) {
            true => number(domain, file),
            false => Ok(0),
        };
        let (mut bandwidth, mut cache) = (Vec::new(), Vec::new());
        for name in directories(&data)? {
            let domain = format!("{data}/{name}");
            bandwidth.push(BandwidthUse {
                mbm_total_bytes: count(&domain, "mbm_total_bytes")?,
                mbm_local_bytes: count(&domain, "mbm_local_bytes")?,
            });
            cache.push(CacheUse { llc_occupancy: count(&domain, "llc_occupancy")? });
        }
        let counts_bandwidth = has("mbm_total_bytes") || has("mbm_local_bytes");
        stats.mbm_stats = Some(bandwidth).filter(|_| counts_bandwidth);
        stats.cmt_stats = Some(cache).filter(|_| has("llc_occupancy"));
        Ok(())
    }
}

fn read(directory: &str, name: &str) -> Result<String, Error> {
    let path = format!("{directory}/{name}");
    Ok(sys::fs::read_text(path.as_str()).context("read", &path)?)
}

/// Reads a number. If the file contains `Unavailable` or `Error`, the counter is not available now, and an error is
/// returned.
fn number(directory: &str, name: &str) -> Result<u64, Error> {
    let content = read(directory, name)?;
    let content = content.trim();
    content.parse().map_err(|_| Error::Unreadable {
        file: format!("{directory}/{name}"),
        content: content.to_string(),
    })
}

/// Returns the last line of schemata that contains the name of a resource.
fn last_about(schemata: &str, resource: &str) -> String {
    let line = schemata.lines().rfind(|line| line.contains(resource));
    line.unwrap_or_default().trim().to_string()
}

/// Returns the names of a directory's subdirectories, sorted.
fn directories(path: &str) -> Result<Vec<String>, Error> {
    let entries = match open_dir(CWD, path).and_then(Dir::new) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        result => result.context("open", path)?,
    };
    let name = |entry: rustix::fs::DirEntry| {
        let name = entry.file_name().to_str().ok()?.to_string();
        (!name.starts_with('.') && entry.file_type().is_dir()).then_some(name)
    };
    let mut names: Vec<String> = entries.filter_map(Result::ok).filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn figures_of_a_group() {
        let root = std::env::temp_dir().join(format!("rdt-stats-{}", std::process::id()));
        let put = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("schemata", "    L3:0=fff;1=fff\n    MB:0=100;1=100\n");
        put("info/L3/cbm_mask", "fff\n");
        put("info/L3/min_cbm_bits", "1\n");
        put("info/L3/num_closids", "16\n");
        put("box/schemata", "    L3:0=f;1=ff\n    MB:0=20;1=100\n");
        let group = Group::at(root.to_str().unwrap(), "box", None);
        let stats = group.stats().unwrap();
        assert_eq!(stats.schemata, ["L3:0=f;1=ff", "    MB:0=20;1=100"]);
        assert_eq!(
            serde_json::to_string(&Stats { schemata: Vec::new(), ..stats }).unwrap(),
            concat!(
                r#"{"l3_cache_info":{"cbm_mask":"fff","min_cbm_bits":1,"num_closids":16},"#,
                r#""l3_cache_schema_root":"L3:0=fff;1=fff","l3_cache_schema":"L3:0=f;1=ff"}"#,
            )
        );

        put("info/MB/bandwidth_gran", "10\n");
        put("info/MB/delay_linear", "1\n");
        put("info/MB/min_bandwidth", "10\n");
        put("info/MB/num_closids", "8\n");
        put("info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n");
        put("box/mon_groups/box/mon_data/mon_L3_00/llc_occupancy", "4096\n");
        put("box/mon_groups/box/mon_data/mon_L3_00/mbm_total_bytes", "77\n");
        put("box/mon_groups/box/mon_data/mon_L3_01/llc_occupancy", "0\n");
        put("box/mon_groups/box/mon_data/mon_L3_01/mbm_total_bytes", "8\n");
        let stats = Group::at(root.to_str().unwrap(), "box", Some("box")).stats().unwrap();
        assert_eq!(stats.mem_bw_schema, "MB:0=20;1=100");
        assert_eq!(stats.mem_bw_info.unwrap().min_bandwidth, 10);
        let used = stats.mbm_stats.unwrap();
        let total = |domain: &BandwidthUse| domain.mbm_total_bytes;
        assert_eq!(used.iter().map(total).collect::<Vec<_>>(), [77, 8]);
        assert_eq!(used[0].mbm_local_bytes, 0, "not counted here");
        assert_eq!(stats.cmt_stats.unwrap()[0].llc_occupancy, 4096);

        put("box/mon_groups/box/mon_data/mon_L3_01/llc_occupancy", "Unavailable\n");
        let group = Group::at(root.to_str().unwrap(), "box", Some("box"));
        assert!(matches!(group.stats(), Err(Error::Unreadable { .. })));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn nothing_is_an_empty_object() {
        assert_eq!(serde_json::to_string(&Stats::default()).unwrap(), "{}");
    }
}
