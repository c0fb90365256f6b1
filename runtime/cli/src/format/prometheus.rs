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
use core::fmt::{self, Display, Write};

use cgroup::resctrl;
use cgroup::stats::{BlkioEntry, MemoryUsage, Pressure, Stats};

/// A container and its statistics.
pub struct Figures<'a> {
    /// The container's id.
    pub id: &'a str,
    /// The statistics of its cgroup.
    pub stats: &'a Stats,
    /// The statistics of its resctrl group.
    pub rdt: &'a resctrl::Stats,
}

/// A value in the unit in which it was read from the kernel.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// A number of bytes or objects.
    Plain(u64),
    Nanoseconds(u64),
    Microseconds(u64),
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(number) => write!(f, "{number}"),
            Self::Nanoseconds(time) => {
                write!(f, "{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
            }
            Self::Microseconds(time) => write!(f, "{}.{:06}", time / 1_000_000, time % 1_000_000),
        }
    }
}

use Value::{Microseconds, Nanoseconds, Plain};

/// One line of a metric: the labels other than the container's id, and the value.
type Sample = (Vec<(&'static str, String)>, Value);

/// A metric, with the function that returns its lines for a container.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: fn(&Figures<'_>) -> Vec<Sample>,
}

const fn counter(
    name: &'static str,
    help: &'static str,
    samples: fn(&Figures<'_>) -> Vec<Sample>,
) -> Family {
    Family { name, kind: "counter", help, samples }
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    samples: fn(&Figures<'_>) -> Vec<Sample>,
) -> Family {
    Family { name, kind: "gauge", help, samples }
}

static FAMILIES: &[Family] = &[
    counter("cpu_usage_seconds_total", "CPU time used.", |of| {
        one(Nanoseconds(of.stats.cpu.usage.total))
    }),
    counter("cpu_user_seconds_total", "CPU time used in user mode.", |of| {
        one(Nanoseconds(of.stats.cpu.usage.user))
    }),
    counter("cpu_system_seconds_total", "CPU time used in the kernel.", |of| {
        one(Nanoseconds(of.stats.cpu.usage.kernel))
    }),
    counter("cpu_core_usage_seconds_total", "CPU time used, by CPU (cgroup v1).", |of| {
        let times = of.stats.cpu.usage.percpu.iter().enumerate();
        times.map(|(cpu, time)| (labels([("cpu", cpu.to_string())]), Nanoseconds(*time))).collect()
    }),
    counter("cpu_periods_total", "Periods of the CPU quota that have begun.", |of| {
        one(Plain(of.stats.cpu.throttling.periods))
    }),
    counter("cpu_throttled_periods_total", "Periods in which the CPU quota ran out.", |of| {
        one(Plain(of.stats.cpu.throttling.throttled_periods))
    }),
    counter("cpu_throttled_seconds_total", "Time for which the CPU quota held tasks back.", |of| {
        one(Nanoseconds(of.stats.cpu.throttling.throttled_time))
    }),
    counter(
        "pressure_waiting_seconds_total",
        "Time for which some task waited for the resource (PSI, cgroup v2).",
        |of| pressures(of, |pressure| pressure.some.total),
    ),
    counter(
        "pressure_stalled_seconds_total",
        "Time for which all tasks waited for the resource (PSI, cgroup v2).",
        |of| pressures(of, |pressure| pressure.full.total),
    ),
    gauge("memory_usage_bytes", "Memory in use, with the page cache.", |of| {
        unless_zero(of.stats.memory.usage.usage)
    }),
    gauge(
        "memory_working_set_bytes",
        "Memory in use without the page cache that can be dropped at once.",
        |of| {
            let inactive = of.memory("inactive_file").unwrap_or_default();
            unless_zero(of.stats.memory.usage.usage.saturating_sub(inactive))
        },
    ),
    gauge("memory_cache_bytes", "Page cache.", |of| unless_zero(of.stats.memory.cache)),
    gauge("memory_peak_bytes", "The most memory that ever was in use.", |of| {
        unless_zero(of.stats.memory.usage.max)
    }),
    gauge("memory_limit_bytes", "Limit of memory, if there is one.", |of| {
        limit(&of.stats.memory.usage)
    }),
    gauge("memory_swap_usage_bytes", "Memory and swap in use together.", |of| {
        unless_zero(of.stats.memory.swap.usage)
    }),
    gauge("memory_swap_limit_bytes", "Limit of memory and swap together, if there is one.", |of| {
        limit(&of.stats.memory.swap)
    }),
    gauge("memory_kernel_usage_bytes", "Kernel memory in use (cgroup v1).", |of| {
        unless_zero(of.stats.memory.kernel.usage)
    }),
    counter("memory_limit_hits_total", "How often the memory limit was hit (cgroup v1).", |of| {
        match of.is_legacy() {
            true => one(Plain(of.stats.memory.usage.failcnt)),
            false => Vec::new(),
        }
    }),
    counter("page_faults_total", "Page faults.", |of| some(of.memory("pgfault"))),
    counter("major_page_faults_total", "Page faults that were read from a disk.", |of| {
        some(of.memory("pgmajfault"))
    }),
    gauge("pids", "Processes and threads.", |of| unless_zero(of.stats.pids.current)),
    gauge("pids_limit", "Limit of processes and threads, if there is one.", |of| {
        unless_zero(of.stats.pids.limit)
    }),
    counter(
        "io_bytes_total",
        "Bytes read from, written to and discarded on block devices.",
        |of| devices(&of.stats.blkio.io_service_bytes_recursive),
    ),
    counter("io_operations_total", "Operations on block devices.", |of| {
        devices(&of.stats.blkio.io_serviced_recursive)
    }),
    gauge("hugetlb_usage_bytes", "Huge pages in use, by their size.", |of| {
        pages(of, |pages| Some(pages.usage))
    }),
    gauge("hugetlb_peak_bytes", "The most huge pages that ever were in use (cgroup v1).", |of| {
        pages(of, |pages| Some(pages.max).filter(|max| *max > 0))
    }),
    counter("hugetlb_limit_hits_total", "How often the limit of huge pages was hit.", |of| {
        pages(of, |pages| Some(pages.failcnt))
    }),
    gauge("rdt_cache_occupancy_bytes", "Third level cache in use, by cache domain.", |of| {
        let all = of.rdt.cmt_stats.iter().flatten();
        domains(all.map(|domain| domain.llc_occupancy))
    }),
    counter(
        "rdt_memory_traffic_bytes_total",
        "Bytes moved to and from memory, by cache domain.",
        |of| domains(of.rdt.mbm_stats.iter().flatten().map(|domain| domain.mbm_total_bytes)),
    ),
    counter(
        "rdt_local_memory_traffic_bytes_total",
        "Bytes moved to and from the memory of the cache domain's own node.",
        |of| domains(of.rdt.mbm_stats.iter().flatten().map(|domain| domain.mbm_local_bytes)),
    ),
];

/// Returns the text for all containers. Each metric is declared once, followed by its lines for all containers.
pub fn text(all: &[Figures<'_>]) -> String {
    let mut text = String::new();
    for family in FAMILIES {
        let mut is_first = true;
        for figures in all {
            for sample in (family.samples)(figures) {
                let _ = match core::mem::take(&mut is_first) {
                    true => write!(
                        text,
                        "# HELP dayfly_container_{0} {1}\n# TYPE dayfly_container_{0} {2}\n",
                        family.name, family.help, family.kind
                    ),
                    false => Ok(()),
                };
                write_sample(&mut text, family.name, figures.id, &sample);
            }
        }
    }
    text
}

fn write_sample(text: &mut String, name: &str, id: &str, (labels, value): &Sample) {
    let _ = write!(text, "dayfly_container_{name}{{id=\"{}\"", Escaped(id));
    for (label, of) in labels {
        let _ = write!(text, ",{label}=\"{}\"", Escaped(of));
    }
    let _ = writeln!(text, "}} {value}");
}

/// The value of a label, escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            _ => f.write_char(letter),
        })
    }
}

impl Figures<'_> {
    /// Returns a value of memory.stat, including descendant cgroups.
    fn memory(&self, key: &str) -> Option<u64> {
        let raw = &self.stats.memory.raw;
        raw.get(format!("total_{key}").as_str()).or_else(|| raw.get(key)).copied()
    }

    /// Returns whether memory is counted by cgroup v1, which reports descendant cgroups separately.
    fn is_legacy(&self) -> bool {
        self.stats.memory.raw.contains_key("total_cache")
    }
}

fn labels<const N: usize>(all: [(&'static str, String); N]) -> Vec<(&'static str, String)> {
    Vec::from(all)
}

fn one(value: Value) -> Vec<Sample> {
    Vec::from([(Vec::new(), value)])
}

fn some(value: Option<u64>) -> Vec<Sample> {
    value.map_or_else(Vec::new, |value| one(Plain(value)))
}

/// Returns one line with the value. Returns no line for a zero, which means that the controller is missing.
fn unless_zero(value: u64) -> Vec<Sample> {
    some(Some(value).filter(|value| *value > 0))
}

/// Returns one line with the memory limit, if one is set. Without a limit, cgroup v1 reports the largest multiple of
/// the page size.
fn limit(memory: &MemoryUsage) -> Vec<Sample> {
    const NONE: u64 = i64::MAX as u64 & !0xffff;
    some(Some(memory.limit).filter(|limit| *limit > 0 && *limit < NONE))
}

fn pressures(of: &Figures<'_>, time: fn(&Pressure) -> u64) -> Vec<Sample> {
    let all =
        [("cpu", &of.stats.cpu.psi), ("memory", &of.stats.memory.psi), ("io", &of.stats.blkio.psi)];
    all.iter()
        .filter_map(|(resource, pressure)| {
            let time = Microseconds(time(pressure.as_ref()?));
            Some((labels([("resource", resource.to_string())]), time))
        })
        .collect()
}

/// Returns one line for each device and operation. Totals and the entries `sync` and `async` are left out.
fn devices(entries: &[BlkioEntry]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for BlkioEntry { major, minor, op, value } in entries {
        let operation = op.to_ascii_lowercase();
        if matches!(&*operation, "read" | "write" | "discard") {
            let device = ("device", format!("{major}:{minor}"));
            samples.push((labels([device, ("operation", operation)]), Plain(*value)));
        }
    }
    samples
}

fn pages(of: &Figures<'_>, figure: fn(&cgroup::stats::HugetlbStats) -> Option<u64>) -> Vec<Sample> {
    let all = of.stats.hugetlb.iter();
    all.filter_map(|(size, pages)| {
        Some((labels([("page_size", size.clone())]), Plain(figure(pages)?)))
    })
    .collect()
}

fn domains(figures: impl Iterator<Item = u64>) -> Vec<Sample> {
    let all = figures.enumerate();
    all.map(|(domain, bytes)| (labels([("domain", domain.to_string())]), Plain(bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cgroup::stats::{HugetlbStats, PressureData};
    use std::collections::{BTreeMap, BTreeSet};

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
        let (stats, rdt) = (stats(), resctrl::Stats::default());
        let all = ["a", "b"].map(|id| Figures { id, stats: &stats, rdt: &rdt });
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
        let (mut stats, rdt) = (Stats::default(), resctrl::Stats::default());
        assert_eq!(text(&[]), "");
        for none in [0, u64::MAX, 0x7fff_ffff_ffff_f000] {
            stats.memory.usage.limit = none;
            let text = text(&[Figures { id: "a", stats: &stats, rdt: &rdt }]);
            assert!(!text.contains("memory") && !text.contains("pids"), "{text}");
            assert!(text.contains("cpu_usage_seconds_total{id=\"a\"} 0.000000000\n"));
        }
    }
}
