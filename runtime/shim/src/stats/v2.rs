//! The message `io.containerd.cgroups.v2.Metrics`. For the meaning of the files see cgroup-v2.rst, "Controllers".

use alloc::format;
use alloc::vec::Vec;

use cgroup::Error;
use cgroup::stats::{self, Files};
use proto::message::Message;
use proto::messages::metrics_v2::{
    CPUStat, HugeTlbStat, IOEntry, IOStat, MemoryStat, Metrics, PSIData, PSIStats, PidsStat,
};

use super::{counters, number, rdma};

/// Reads all metrics. The part of a missing controller is zero or left out.
pub(super) fn metrics(files: &Files) -> Result<Metrics, Error> {
    Ok(Metrics {
        pids: Some(PidsStat {
            current: number(files, "pids.current")?,
            limit: number(files, "pids.max")?,
        }),
        cpu: Some(cpu(files)?),
        memory: Some(memory(files)?),
        rdma: Some(rdma(files)?),
        io: Some(IOStat { usage: io(files)?, psi: pressure(files, "io.pressure")? }),
        hugetlb: hugetlb(files)?,
        memory_events: files.text("memory.events")?.map(|text| counters(&text)),
        network: Vec::new(),
    })
}

fn cpu(files: &Files) -> Result<CPUStat, Error> {
    let mut stat: CPUStat = counters(&files.text("cpu.stat")?.unwrap_or_default());
    stat.psi = pressure(files, "cpu.pressure")?;
    Ok(stat)
}

fn memory(files: &Files) -> Result<MemoryStat, Error> {
    let Some(text) = files.text("memory.stat")? else { return Ok(MemoryStat::default()) };
    let mut stat: MemoryStat = counters(&text);
    stat.usage = number(files, "memory.current")?;
    stat.usage_limit = number(files, "memory.max")?;
    // memory.peak exists since Linux 5.19, and its counterpart for swap since Linux 6.5.
    stat.max_usage = number(files, "memory.peak")?;
    stat.swap_usage = number(files, "memory.swap.current")?;
    stat.swap_limit = number(files, "memory.swap.max")?;
    stat.swap_max_usage = number(files, "memory.swap.peak")?;
    stat.psi = pressure(files, "memory.pressure")?;
    Ok(stat)
}

/// Parses io.stat, which contains one line per device, such as `8:0 rbytes=4096 …`. Before 6.0, the kernel wrote no
/// newline after a device without values, so a device may also begin in the middle of a line.
fn io(files: &Files) -> Result<Vec<IOEntry>, Error> {
    let mut entries: Vec<IOEntry> = Vec::new();
    for line in files.text("io.stat")?.unwrap_or_default().lines() {
        let mut device = None;
        for word in line.split_whitespace() {
            let Some((key, value)) = word.split_once('=') else {
                device = stats::device(word);
                continue;
            };
            let (Some(value), Some((major, minor))) = (stats::number(value), device) else {
                continue;
            };
            if entries.last().is_none_or(|last| (last.major, last.minor) != (major, minor)) {
                entries.push(IOEntry { major, minor, ..IOEntry::default() });
            }
            let Some(entry) = entries.last_mut() else { continue };
            if let Some(field) = entry.counter(key) {
                *field = value;
            }
        }
    }
    Ok(entries)
}

fn hugetlb(files: &Files) -> Result<Vec<HugeTlbStat>, Error> {
    let mut sizes = Vec::new();
    for pagesize in stats::huge_page_sizes() {
        let events = files.text(&format!("hugetlb.{pagesize}.events"))?;
        sizes.push(HugeTlbStat {
            failcnt: stats::key(&events.unwrap_or_default(), "max").unwrap_or(0),
            current: number(files, &format!("hugetlb.{pagesize}.current"))?,
            max: number(files, &format!("hugetlb.{pagesize}.max"))?,
            pagesize,
        });
    }
    Ok(sizes)
}

/// Reads pressure stall information (accounting/psi.rst). Returns `None` before Linux 4.20, or if PSI is disabled.
fn pressure(files: &Files, name: &str) -> Result<Option<PSIStats>, Error> {
    let Some(text) = files.text(name)? else { return Ok(None) };
    let line = |kind: &str| {
        let data = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        Some(pressure_data(data))
    };
    Ok(Some(PSIStats { some: line("some"), full: line("full") }))
}

/// Parses `avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn pressure_data(text: &str) -> PSIData {
    let mut data = PSIData::default();
    for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        let share = || value.parse().unwrap_or_default();
        match key {
            "avg10" => data.avg10 = share(),
            "avg60" => data.avg60 = share(),
            "avg300" => data.avg300 = share(),
            "total" => data.total = stats::number(value).unwrap_or_default(),
            _ => {}
        }
    }
    data
}
