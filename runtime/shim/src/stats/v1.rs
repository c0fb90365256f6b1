//! The message `io.containerd.cgroups.v1.Metrics`. For the meaning of the files see cgroup-v1/*.rst.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use cgroup::stats::{self, Files};
use cgroup::{Controller, Error, Location};
use proto::messages::metrics_v1::{
    BlkIOEntry, BlkIOStat, CPUUsage, HugetlbStat, MemoryEntry, MemoryStat, Metrics, PidsStat,
};

use super::{counters, number, rdma};

/// The nanoseconds of a clock tick in cpuacct.stat: USER_HZ is 100 on every architecture that dayfly supports.
const NANOSECONDS_A_TICK: u64 = 10_000_000;

/// Reads all metrics. Parts of missing controllers are left out, except the CPU part (`cpu` and `cpuacct`), which is
/// then zero.
pub(super) fn metrics(location: &Location) -> Result<Metrics, Error> {
    let mut metrics = Metrics::default();
    let cpu = metrics.cpu.get_or_insert_default();
    let usage = cpu.usage.get_or_insert_default();
    let throttling = cpu.throttling.get_or_insert_default();
    let mut is_there = false;
    for legacy in &location.legacy {
        for controller in legacy.controllers.iter() {
            let files = match Files::legacy(location, controller) {
                Ok(files) => files,
                Err(Error::Gone { .. }) => break,
                Err(error) => return Err(error),
            };
            is_there = true;
            let files = &files;
            match controller {
                Controller::Cpuacct => *usage = cpu_usage(files)?,
                Controller::Cpu => {
                    *throttling = counters(&files.text("cpu.stat")?.unwrap_or_default());
                }
                Controller::Memory => {
                    metrics.memory = memory(files)?;
                    metrics.memory_oom_control =
                        files.text("memory.oom_control")?.map(|text| counters(&text));
                }
                Controller::Pids => metrics.pids = pids(files)?,
                Controller::Blkio => metrics.blkio = Some(blkio(files)?),
                Controller::Hugetlb => metrics.hugetlb = hugetlb(files)?,
                Controller::Rdma => metrics.rdma = Some(rdma(files)?),
                _ => {}
            }
        }
    }
    match is_there {
        true => Ok(metrics),
        false => Err(Error::Gone(location.directory().into())),
    }
}

fn cpu_usage(files: &Files) -> Result<CPUUsage, Error> {
    let mut usage = CPUUsage { total: number(files, "cpuacct.usage")?, ..CPUUsage::default() };
    for (key, value) in stats::keys(&files.text("cpuacct.stat")?.unwrap_or_default()) {
        match key {
            "user" => usage.user = value.saturating_mul(NANOSECONDS_A_TICK),
            "system" => usage.kernel = value.saturating_mul(NANOSECONDS_A_TICK),
            _ => {}
        }
    }
    let by_cpu = files.text("cpuacct.usage_percpu")?.unwrap_or_default();
    usage.per_cpu = by_cpu.split_whitespace().filter_map(stats::number).collect();
    Ok(usage)
}

/// Reads the files of the pids controller. If there is no limit, reports 0, as older versions of containerd's module
/// do.
fn pids(files: &Files) -> Result<Option<PidsStat>, Error> {
    let Some(current) = files.number("pids.current")? else { return Ok(None) };
    let limit = number(files, "pids.max")?;
    Ok(Some(PidsStat { current, limit: if limit == u64::MAX { 0 } else { limit } }))
}

fn memory(files: &Files) -> Result<Option<MemoryStat>, Error> {
    let Some(text) = files.text("memory.stat")? else { return Ok(None) };
    let mut stat: MemoryStat = counters(&text);
    // Accounting of swap and of kernel memory may be disabled; in that case their values are zero.
    stat.usage = Some(memory_entry(files, "memory")?);
    stat.swap = Some(memory_entry(files, "memory.memsw")?);
    stat.kernel = Some(memory_entry(files, "memory.kmem")?);
    stat.kernel_tcp = Some(memory_entry(files, "memory.kmem.tcp")?);
    Ok(Some(stat))
}

fn memory_entry(files: &Files, prefix: &str) -> Result<MemoryEntry, Error> {
    let read = |name: &str| number(files, &format!("{prefix}.{name}"));
    Ok(MemoryEntry {
        limit: read("limit_in_bytes")?,
        usage: read("usage_in_bytes")?,
        max: read("max_usage_in_bytes")?,
        failcnt: read("failcnt")?,
    })
}

fn hugetlb(files: &Files) -> Result<Vec<HugetlbStat>, Error> {
    let mut sizes = Vec::new();
    for pagesize in stats::huge_page_sizes() {
        let read = |name: &str| number(files, &format!("hugetlb.{pagesize}.{name}"));
        let (usage, max) = (read("usage_in_bytes")?, read("max_usage_in_bytes")?);
        let failcnt = read("failcnt")?;
        sizes.push(HugetlbStat { usage, max, failcnt, pagesize });
    }
    Ok(sizes)
}

/// Reads the files of the I/O scheduler CFQ (before Linux 5.0). If they are empty, reads the files of I/O throttling,
/// which exist on every kernel. Files whose values include descendants (Linux 4.16) are preferred.
fn blkio(files: &Files) -> Result<BlkIOStat, Error> {
    let mut stat = BlkIOStat::default();
    for (prefix, suffix) in
        [("blkio", "_recursive"), ("blkio.throttle", "_recursive"), ("blkio.throttle", "")]
    {
        let read = |name: &str| table(files, &format!("{prefix}.{name}{suffix}"));
        stat.io_serviced_recursive = read("io_serviced")?;
        if stat.io_serviced_recursive.is_empty() {
            continue;
        }
        stat.io_service_bytes_recursive = read("io_service_bytes")?;
        if prefix == "blkio" {
            stat.sectors_recursive = read("sectors")?;
            stat.io_queued_recursive = read("io_queued")?;
            stat.io_service_time_recursive = read("io_service_time")?;
            stat.io_wait_time_recursive = read("io_wait_time")?;
            stat.io_merged_recursive = read("io_merged")?;
            stat.io_time_recursive = read("time")?;
        }
        let text = sys::fs::read_text("/proc/partitions").unwrap_or_default();
        name_devices(&mut stat, &text);
        break;
    }
    Ok(stat)
}

/// Parses lines of the form `MAJOR:MINOR [OPERATION] VALUE`. The total at the end is skipped. Returns no entries if the
/// file is missing.
fn table(files: &Files, name: &str) -> Result<Vec<BlkIOEntry>, Error> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (major, minor) = stats::device(words.next()?)?;
        let (op, value) = match (words.next()?, words.next()) {
            (value, None) => ("", value),
            (op, Some(value)) => (op, value),
        };
        let (op, value) = (String::from(op), stats::number(value)?);
        Some(BlkIOEntry { op, device: String::new(), major, minor, value })
    };
    Ok(files.text(name)?.unwrap_or_default().lines().filter_map(line).collect())
}

/// Sets the names of devices, from the text of /proc/partitions: a header, and lines of the form `MAJOR MINOR BLOCKS
/// NAME`.
pub(super) fn name_devices(stat: &mut BlkIOStat, partitions: &str) {
    let name = |major: u64, minor: u64| {
        partitions.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let is_it = words.next()?.parse() == Ok(major) && words.next()?.parse() == Ok(minor);
            is_it.then_some(words.nth(1)?)
        })
    };
    for entry in [
        &mut stat.io_service_bytes_recursive,
        &mut stat.io_serviced_recursive,
        &mut stat.io_queued_recursive,
        &mut stat.io_service_time_recursive,
        &mut stat.io_wait_time_recursive,
        &mut stat.io_merged_recursive,
        &mut stat.io_time_recursive,
        &mut stat.sectors_recursive,
    ]
    .into_iter()
    .flatten()
    {
        entry.device =
            name(entry.major, entry.minor).map_or_else(String::new, |name| format!("/dev/{name}"));
    }
}
