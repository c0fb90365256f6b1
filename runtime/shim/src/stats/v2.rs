//! The message `io.containerd.cgroups.v2.Metrics`. For the meaning of the files see cgroup-v2.rst, "Controllers".

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use cgroup::Error;
use cgroup::stats::{self, Files};
use proto::messages::metrics_v2::{
    CPUStat, HugeTlbStat, IOEntry, IOStat, MemoryEvents, MemoryStat, Metrics, PSIData, PSIStats,
    PidsStat, RdmaEntry, RdmaStat,
};

use super::number;

/// Reads all metrics. The part of a missing controller is zero or left out.
pub(super) fn metrics(files: &mut Files) -> Result<Metrics, Error> {
    Ok(Metrics {
        pids: Some(PidsStat {
            current: number(files, "pids.current")?,
            limit: number(files, "pids.max")?,
        }),
        cpu: Some(cpu(files)?),
        memory: Some(memory(files)?),
        rdma: Some(RdmaStat {
            current: rdma(files, "rdma.current")?,
            limit: rdma(files, "rdma.max")?,
        }),
        io: Some(IOStat { usage: io(files)?, psi: pressure(files, "io.pressure")? }),
        hugetlb: hugetlb(files)?,
        memory_events: memory_events(files)?,
        network: Vec::new(),
    })
}

fn cpu(files: &mut Files) -> Result<CPUStat, Error> {
    let mut stat = CPUStat::default();
    for (key, value) in stats::keys(files.text("cpu.stat")?.unwrap_or_default()) {
        match key {
            "usage_usec" => stat.usage_usec = value,
            "user_usec" => stat.user_usec = value,
            "system_usec" => stat.system_usec = value,
            "nr_periods" => stat.nr_periods = value,
            "nr_throttled" => stat.nr_throttled = value,
            "throttled_usec" => stat.throttled_usec = value,
            "nr_bursts" => stat.nr_bursts = value,
            "burst_usec" => stat.burst_usec = value,
            _ => {}
        }
    }
    stat.psi = pressure(files, "cpu.pressure")?;
    Ok(stat)
}

fn memory(files: &mut Files) -> Result<MemoryStat, Error> {
    let Some(text) = files.text("memory.stat")? else { return Ok(MemoryStat::default()) };
    let mut stat = MemoryStat::default();
    for (key, value) in stats::keys(text) {
        if let Some(field) = memory_field(&mut stat, key) {
            *field = value;
        }
    }
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

/// Returns the field that stores the value of a key in memory.stat.
fn memory_field<'a>(stat: &'a mut MemoryStat, key: &str) -> Option<&'a mut u64> {
    Some(match key {
        "anon" => &mut stat.anon,
        "file" => &mut stat.file,
        "kernel_stack" => &mut stat.kernel_stack,
        "slab" => &mut stat.slab,
        "sock" => &mut stat.sock,
        "shmem" => &mut stat.shmem,
        "file_mapped" => &mut stat.file_mapped,
        "file_dirty" => &mut stat.file_dirty,
        "file_writeback" => &mut stat.file_writeback,
        "anon_thp" => &mut stat.anon_thp,
        "inactive_anon" => &mut stat.inactive_anon,
        "active_anon" => &mut stat.active_anon,
        "inactive_file" => &mut stat.inactive_file,
        "active_file" => &mut stat.active_file,
        "unevictable" => &mut stat.unevictable,
        "slab_reclaimable" => &mut stat.slab_reclaimable,
        "slab_unreclaimable" => &mut stat.slab_unreclaimable,
        "pgfault" => &mut stat.pgfault,
        "pgmajfault" => &mut stat.pgmajfault,
        "workingset_refault" => &mut stat.workingset_refault,
        "workingset_activate" => &mut stat.workingset_activate,
        "workingset_nodereclaim" => &mut stat.workingset_nodereclaim,
        "pgrefill" => &mut stat.pgrefill,
        "pgscan" => &mut stat.pgscan,
        "pgsteal" => &mut stat.pgsteal,
        "pgactivate" => &mut stat.pgactivate,
        "pgdeactivate" => &mut stat.pgdeactivate,
        "pglazyfree" => &mut stat.pglazyfree,
        "pglazyfreed" => &mut stat.pglazyfreed,
        "thp_fault_alloc" => &mut stat.thp_fault_alloc,
        "thp_collapse_alloc" => &mut stat.thp_collapse_alloc,
        _ => return None,
    })
}

fn memory_events(files: &mut Files) -> Result<Option<MemoryEvents>, Error> {
    let Some(text) = files.text("memory.events")? else { return Ok(None) };
    let value = |key| stats::key(text, key);
    Ok(Some(MemoryEvents {
        low: value("low"),
        high: value("high"),
        max: value("max"),
        oom: value("oom"),
        oom_kill: value("oom_kill"),
        oom_group_kill: value("oom_group_kill"),
    }))
}

fn rdma(files: &mut Files, name: &str) -> Result<Vec<RdmaEntry>, Error> {
    let devices = super::rdma(files.text(name)?.unwrap_or_default());
    let entry = |(device, hca_handles, hca_objects)| RdmaEntry {
        device: String::from(device),
        hca_handles,
        hca_objects,
    };
    Ok(devices.map(entry).collect())
}

/// Parses io.stat, which contains one line per device, such as `8:0 rbytes=4096 …`. Before 6.0, the kernel wrote no
/// newline after a device without values, so a device may also begin in the middle of a line.
fn io(files: &mut Files) -> Result<Vec<IOEntry>, Error> {
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
            match key {
                "rbytes" => entry.rbytes = value,
                "wbytes" => entry.wbytes = value,
                "rios" => entry.rios = value,
                "wios" => entry.wios = value,
                _ => {}
            }
        }
    }
    Ok(entries)
}

fn hugetlb(files: &mut Files) -> Result<Vec<HugeTlbStat>, Error> {
    let mut sizes = Vec::new();
    for pagesize in stats::huge_page_sizes() {
        let events = files.text(&format!("hugetlb.{pagesize}.events"))?;
        sizes.push(HugeTlbStat {
            failcnt: stats::key(events.unwrap_or_default(), "max"),
            current: number(files, &format!("hugetlb.{pagesize}.current"))?,
            max: number(files, &format!("hugetlb.{pagesize}.max"))?,
            pagesize,
        });
    }
    Ok(sizes)
}

/// Reads pressure stall information (accounting/psi.rst). Returns `None` before Linux 4.20, or if PSI is disabled.
fn pressure(files: &mut Files, name: &str) -> Result<Option<PSIStats>, Error> {
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
