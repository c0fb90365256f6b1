//! `events --format prometheus`: the resource usage of containers in Prometheus' text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Prometheus reads this format over HTTP, and node
//! exporter reads it from files.
//!
//! The name of a metric ends in its unit, seconds or bytes, and the name of a counter ends in `_total`. Values that a
//! controller does not provide, and limits that are not set, are left out, since a zero would look like a measured
//! value.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{Display, Write};

use cgroup::resctrl;
use cgroup::stats::{BlkioEntry, HugetlbStats, MemoryUsage, Pressure, Stats};

use super::event::Usage;

/// The lines of a metric for a container: each has its labels other than the container's id, and its value.
type Samples = Vec<(String, String)>;

/// A metric: its name, its help, and the function that returns its lines for a container.
struct Metric(&'static str, &'static str, fn(&Stats, &resctrl::Stats) -> Samples);

static METRICS: &[Metric] = &[
    Metric("cpu_usage_seconds_total", "CPU time used.", |of, _| time(of.cpu.usage.total)),
    Metric("cpu_user_seconds_total", "CPU time used in user mode.", |of, _| {
        time(of.cpu.usage.user)
    }),
    Metric("cpu_system_seconds_total", "CPU time used in the kernel.", |of, _| {
        time(of.cpu.usage.kernel)
    }),
    Metric("cpu_core_usage_seconds_total", "CPU time used, by CPU (cgroup v1).", |of, _| {
        numbered("cpu", of.cpu.usage.percpu.iter().map(|time| nanoseconds(*time)))
    }),
    Metric("cpu_periods_total", "Periods of the CPU quota that have begun.", |of, _| {
        number(of.cpu.throttling.periods)
    }),
    Metric("cpu_throttled_periods_total", "Periods in which the CPU quota ran out.", |of, _| {
        number(of.cpu.throttling.throttled_periods)
    }),
    Metric(
        "cpu_throttled_seconds_total",
        "Time for which the CPU quota held tasks back.",
        |of, _| time(of.cpu.throttling.throttled_time),
    ),
    Metric(
        "pressure_waiting_seconds_total",
        "Time for which some task waited for the resource (PSI, cgroup v2).",
        |of, _| pressures(of, |pressure| pressure.some.total),
    ),
    Metric(
        "pressure_stalled_seconds_total",
        "Time for which all tasks waited for the resource (PSI, cgroup v2).",
        |of, _| pressures(of, |pressure| pressure.full.total),
    ),
    Metric("memory_usage_bytes", "Memory in use, with the page cache.", |of, _| {
        unless_zero(of.memory.usage.usage)
    }),
    Metric(
        "memory_working_set_bytes",
        "Memory in use without the page cache that can be dropped at once.",
        |of, _| {
            let inactive = memory(of, "inactive_file").unwrap_or_default();
            unless_zero(of.memory.usage.usage.saturating_sub(inactive))
        },
    ),
    Metric("memory_cache_bytes", "Page cache.", |of, _| unless_zero(of.memory.cache)),
    Metric("memory_peak_bytes", "The most memory that ever was in use.", |of, _| {
        unless_zero(of.memory.usage.max)
    }),
    Metric("memory_limit_bytes", "Limit of memory, if there is one.", |of, _| {
        limit(&of.memory.usage)
    }),
    Metric("memory_swap_usage_bytes", "Memory and swap in use together.", |of, _| {
        unless_zero(of.memory.swap.usage)
    }),
    Metric(
        "memory_swap_limit_bytes",
        "Limit of memory and swap together, if there is one.",
        |of, _| limit(&of.memory.swap),
    ),
    Metric("memory_kernel_usage_bytes", "Kernel memory in use (cgroup v1).", |of, _| {
        unless_zero(of.memory.kernel.usage)
    }),
    Metric(
        "memory_limit_hits_total",
        "How often the memory limit was hit (cgroup v1).",
        // Only cgroup v1 reports descendant cgroups separately.
        |of, _| {
            let is_legacy = of.memory.raw.contains_key("total_cache");
            some(is_legacy.then_some(of.memory.usage.failcnt))
        },
    ),
    Metric("page_faults_total", "Page faults.", |of, _| some(memory(of, "pgfault"))),
    Metric("major_page_faults_total", "Page faults that were read from a disk.", |of, _| {
        some(memory(of, "pgmajfault"))
    }),
    Metric("pids", "Processes and threads.", |of, _| unless_zero(of.pids.current)),
    Metric("pids_limit", "Limit of processes and threads, if there is one.", |of, _| {
        unless_zero(of.pids.limit)
    }),
    Metric(
        "io_bytes_total",
        "Bytes read from, written to and discarded on block devices.",
        |of, _| devices(&of.blkio.io_service_bytes_recursive),
    ),
    Metric("io_operations_total", "Operations on block devices.", |of, _| {
        devices(&of.blkio.io_serviced_recursive)
    }),
    Metric("hugetlb_usage_bytes", "Huge pages in use, by their size.", |of, _| {
        pages(of, |pages| Some(pages.usage))
    }),
    Metric(
        "hugetlb_peak_bytes",
        "The most huge pages that ever were in use (cgroup v1).",
        |of, _| pages(of, |pages| Some(pages.max).filter(|max| *max > 0)),
    ),
    Metric("hugetlb_limit_hits_total", "How often the limit of huge pages was hit.", |of, _| {
        pages(of, |pages| Some(pages.failcnt))
    }),
    Metric("rdt_cache_occupancy_bytes", "Third level cache in use, by cache domain.", |_, of| {
        numbered("domain", of.cmt_stats.iter().flatten().map(|domain| domain.llc_occupancy))
    }),
    Metric(
        "rdt_memory_traffic_bytes_total",
        "Bytes moved to and from memory, by cache domain.",
        |_, of| {
            numbered("domain", of.mbm_stats.iter().flatten().map(|domain| domain.mbm_total_bytes))
        },
    ),
    Metric(
        "rdt_local_memory_traffic_bytes_total",
        "Bytes moved to and from the memory of the cache domain's own node.",
        |_, of| {
            numbered("domain", of.mbm_stats.iter().flatten().map(|domain| domain.mbm_local_bytes))
        },
    ),
];

/// Returns the text for all containers. Each metric is declared once, followed by its lines for all containers.
pub fn text(all: &[Usage]) -> String {
    let mut text = String::new();
    for Metric(name, help, samples) in METRICS {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let lines: String = all.iter().flat_map(|of| lines(name, of, *samples)).collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "# HELP dayfly_container_{name} {help}");
            let _ = write!(text, "# TYPE dayfly_container_{name} {kind}\n{lines}");
        }
    }
    text
}

fn lines(
    name: &str,
    Usage { id, stats, rdt }: &Usage,
    samples: fn(&Stats, &resctrl::Stats) -> Samples,
) -> Vec<String> {
    let id = escaped(id);
    let line =
        |(labels, value)| format!("dayfly_container_{name}{{id=\"{id}\"{labels}}} {value}\n");
    samples(stats, rdt).into_iter().map(line).collect()
}

/// Returns the value of a label, escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns a label other than the container's id.
fn label(name: &str, value: impl Display) -> String {
    format!(",{name}=\"{}\"", escaped(&value.to_string()))
}

/// Returns a value of memory.stat, including descendant cgroups.
fn memory(of: &Stats, key: &str) -> Option<u64> {
    let raw = &of.memory.raw;
    raw.get(format!("total_{key}").as_str()).or_else(|| raw.get(key)).copied()
}

/// Returns a time in seconds.
fn nanoseconds(time: u64) -> String {
    format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
}

fn time(nanoseconds: u64) -> Samples {
    Vec::from([(String::new(), self::nanoseconds(nanoseconds))])
}

fn number(value: u64) -> Samples {
    Vec::from([(String::new(), value.to_string())])
}

fn some(value: Option<u64>) -> Samples {
    value.map(number).unwrap_or_default()
}

/// Returns one line with the value. Returns no line for a zero, which means that the controller is missing.
fn unless_zero(value: u64) -> Samples {
    some(Some(value).filter(|value| *value > 0))
}

/// Returns one line with the memory limit, if one is set. Without a limit, cgroup v1 reports the largest multiple of
/// the page size.
fn limit(memory: &MemoryUsage) -> Samples {
    const NONE: u64 = i64::MAX as u64 & !0xffff;
    some(Some(memory.limit).filter(|limit| *limit > 0 && *limit < NONE))
}

/// Returns one line for each value, labelled with its number.
fn numbered<T: ToString>(name: &str, values: impl Iterator<Item = T>) -> Samples {
    values.enumerate().map(|(at, value)| (label(name, at), value.to_string())).collect()
}

fn pressures(of: &Stats, time: fn(&Pressure) -> u64) -> Samples {
    let all = [("cpu", &of.cpu.psi), ("memory", &of.memory.psi), ("io", &of.blkio.psi)];
    let line = |(resource, pressure): (&str, &Option<Pressure>)| {
        let time = time(pressure.as_ref()?);
        let seconds = format!("{}.{:06}", time / 1_000_000, time % 1_000_000);
        Some((label("resource", resource), seconds))
    };
    all.into_iter().filter_map(line).collect()
}

/// Returns one line for each device and operation. Totals and the entries `sync` and `async` are left out.
fn devices(entries: &[BlkioEntry]) -> Samples {
    let mut samples = Samples::new();
    for BlkioEntry { major, minor, op, value } in entries {
        let operation = op.to_ascii_lowercase();
        if matches!(&*operation, "read" | "write" | "discard") {
            let device = label("device", format_args!("{major}:{minor}"));
            samples.push((device + &label("operation", operation), value.to_string()));
        }
    }
    samples
}

fn pages(of: &Stats, figure: fn(&HugetlbStats) -> Option<u64>) -> Samples {
    let line = |(size, pages)| Some((label("page_size", size), figure(pages)?.to_string()));
    of.hugetlb.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cgroup::stats::PressureData;
    use std::collections::{BTreeMap, BTreeSet};

    fn usage(id: &str, stats: Stats) -> Usage {
        Usage { id: id.into(), stats, rdt: resctrl::Stats::default() }
    }

    fn stats() -> Stats {
        let mut stats = Stats::default();
        stats.cpu.usage.total = 1_500_000_001;
        stats.cpu.usage.percpu = vec![1, 2];
        stats.memory.usage = MemoryUsage { limit: 1 << 20, usage: 4096, max: 8192, failcnt: 3 };
        stats.memory.raw = BTreeMap::from([("total_cache".into(), 0), ("pgfault".into(), 7)]);
        let some = PressureData { total: 2_000_001, ..PressureData::default() };
        stats.memory.psi = Some(Pressure { some, ..Pressure::default() });
        stats.blkio.io_service_bytes_recursive = ["Read", "Write", "Sync", "Total"]
            .map(|op| BlkioEntry { major: 8, minor: 16, op: op.into(), value: 512 })
            .into();
        stats.hugetlb.insert("2\"M\\B\n".into(), HugetlbStats::default());
        stats
    }

    #[test]
    fn each_name_once() {
        let all = ["a", "b"].map(|id| usage(id, stats()));
        let text = text(&all);
        let (mut names, mut current) = (BTreeSet::new(), "");
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                current = rest.split(' ').next().unwrap();
                assert!(names.insert(current), "{current} is there twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let kind = rest.strip_prefix(current).unwrap().trim_start();
                assert_eq!(kind == "counter", current.ends_with("_total"), "{line}");
            } else {
                assert!(line.starts_with(&format!("{current}{{id=\"")), "{line}");
            }
        }
        assert!(names.len() > 12, "{names:?}");
        for line in [
            "dayfly_container_cpu_usage_seconds_total{id=\"a\"} 1.500000001",
            "dayfly_container_cpu_core_usage_seconds_total{id=\"b\",cpu=\"1\"} 0.000000002",
            "dayfly_container_memory_limit_bytes{id=\"a\"} 1048576",
            "dayfly_container_memory_limit_hits_total{id=\"a\"} 3",
            "dayfly_container_page_faults_total{id=\"b\"} 7",
            "dayfly_container_pressure_waiting_seconds_total{id=\"a\",resource=\"memory\"} 2.000001",
            "dayfly_container_io_bytes_total{id=\"a\",device=\"8:16\",operation=\"write\"} 512",
            "dayfly_container_hugetlb_usage_bytes{id=\"a\",page_size=\"2\\\"M\\\\B\\n\"} 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("sync") && !text.contains("operation=\"total\""));
    }

    #[test]
    fn no_figure_no_line() {
        let mut stats = Stats::default();
        assert_eq!(text(&[]), "");
        for none in [0, u64::MAX, 0x7fff_ffff_ffff_f000] {
            stats.memory.usage.limit = none;
            let text = text(&[usage("a", stats.clone())]);
            assert!(!text.contains("memory") && !text.contains("pids"), "{text}");
            assert!(text.contains("cpu_usage_seconds_total{id=\"a\"} 0.000000000\n"));
        }
    }
}
