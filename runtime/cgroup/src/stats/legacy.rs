//! Reads the statistics from cgroup v1.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::{
    BlkioEntry, BlkioStats, CpuUsage, CpusetStats, HugetlbStats, MemoryStats, MemoryUsage,
    PidsStats, Stats, Throttling, huge_page_sizes, optional,
};
use crate::directory::Directory;
use crate::v1::{Legacy, find};
use crate::{Controller, Error, parse};

/// The length of a clock tick in cpuacct.stat, in nanoseconds: USER_HZ is 100 on every architecture that dayfly
/// supports.
const NANOSECONDS_A_TICK: u64 = 10_000_000;

pub(super) fn stats(all: &[Legacy]) -> Result<Stats, Error> {
    let mut stats = Stats::default();
    if let Some(directory) = find(all, Controller::Cpuacct) {
        stats.cpu.usage = cpu_usage(directory)?;
    }
    if let Some(directory) = find(all, Controller::Cpu) {
        stats.cpu.throttling = throttling(directory)?;
    }
    if let Some(directory) = find(all, Controller::Cpuset) {
        stats.cpuset = cpuset(directory)?;
    }
    if let Some(directory) = find(all, Controller::Memory) {
        stats.memory = memory(directory)?;
    }
    if let Some(directory) = find(all, Controller::Pids) {
        stats.pids = pids(directory)?;
    }
    if let Some(directory) = find(all, Controller::Blkio) {
        stats.blkio = blkio(directory)?;
    }
    if let Some(directory) = find(all, Controller::Hugetlb) {
        for size in huge_page_sizes() {
            let usage = hugetlb(directory, &size)?;
            stats.hugetlb.insert(size, usage);
        }
    }
    Ok(stats)
}

fn cpu_usage(directory: &Directory) -> Result<CpuUsage, Error> {
    let ticks = directory.read("cpuacct.stat")?;
    let nanoseconds = |key| parse::key(&ticks, key).unwrap_or(0).saturating_mul(NANOSECONDS_A_TICK);
    let by_cpu = directory.read("cpuacct.usage_percpu")?;
    let mut usage = CpuUsage {
        total: directory.read_number("cpuacct.usage")?,
        percpu: by_cpu.split_whitespace().filter_map(parse::number).collect(),
        kernel: nanoseconds("system"),
        user: nanoseconds("user"),
        ..CpuUsage::default()
    };
    // The file exists since Linux 4.7. It has a header line; the other lines contain the CPU, the user time and the
    // system time.
    let all = optional(directory.read("cpuacct.usage_all").map_err(Error::from))?;
    for line in all.unwrap_or_default().lines().skip(1) {
        let mut words = line.split_whitespace().skip(1).filter_map(parse::number);
        if let (Some(user), Some(kernel)) = (words.next(), words.next()) {
            usage.percpu_user.push(user);
            usage.percpu_kernel.push(kernel);
        }
    }
    Ok(usage)
}

fn throttling(directory: &Directory) -> Result<Throttling, Error> {
    let text = directory.read("cpu.stat")?;
    let value = |key| parse::key(&text, key).unwrap_or(0);
    Ok(Throttling {
        periods: value("nr_periods"),
        throttled_periods: value("nr_throttled"),
        throttled_time: value("throttled_time"),
    })
}

fn cpuset(directory: &Directory) -> Result<CpusetStats, Error> {
    let list = |name: &str| {
        let text = directory.read(name)?;
        parse::list(text.trim_end()).ok_or_else(|| directory.unreadable(name, &text))
    };
    let number = |name: &str| {
        let value = directory.read_number(&format!("cpuset.{name}"));
        Ok::<_, Error>(optional(value)?.unwrap_or(0))
    };
    let level = directory.read("cpuset.sched_relax_domain_level")?;
    Ok(CpusetStats {
        cpus: list("cpuset.cpus")?,
        cpu_exclusive: number("cpu_exclusive")?,
        mems: list("cpuset.mems")?,
        mem_hardwall: number("mem_hardwall")?,
        mem_exclusive: number("mem_exclusive")?,
        memory_migrate: number("memory_migrate")?,
        memory_spread_page: number("memory_spread_page")?,
        memory_spread_slab: number("memory_spread_slab")?,
        memory_pressure: number("memory_pressure")?,
        sched_load_balance: number("sched_load_balance")?,
        sched_relax_domain_level: level.trim_end().parse().unwrap_or(0),
    })
}

fn memory(directory: &Directory) -> Result<MemoryStats, Error> {
    let text = directory.read("memory.stat")?;
    // Accounting of swap and of kernel memory may be disabled.
    let optional_usage =
        |name: &str| Ok::<_, Error>(optional(memory_usage(directory, name))?.unwrap_or_default());
    Ok(MemoryStats {
        cache: parse::key(&text, "cache").unwrap_or(0),
        usage: memory_usage(directory, "memory")?,
        swap: optional_usage("memory.memsw")?,
        kernel: optional_usage("memory.kmem")?,
        kernel_tcp: optional_usage("memory.kmem.tcp")?,
        raw: parse::keys(&text).map(|(key, value)| (key.to_string(), value)).collect(),
        psi: None,
    })
}

fn memory_usage(directory: &Directory, prefix: &str) -> Result<MemoryUsage, Error> {
    let read = |name: &str| directory.read_number(&format!("{prefix}.{name}"));
    Ok(MemoryUsage {
        usage: read("usage_in_bytes")?,
        max: read("max_usage_in_bytes")?,
        failcnt: read("failcnt")?,
        // Newer kernels do not support a limit for kernel memory.
        limit: optional(read("limit_in_bytes"))?.unwrap_or(0),
    })
}

fn pids(directory: &Directory) -> Result<PidsStats, Error> {
    let limit = directory.read_number("pids.max")?;
    Ok(PidsStats {
        current: directory.read_number("pids.current")?,
        limit: if limit == u64::MAX { 0 } else { limit },
    })
}

/// Reads the statistics of block devices. The kernel and its I/O schedulers determine which files exist. There are four
/// groups of files, tried in runc's order: BFQ with debugging, BFQ, CFQ, throttling. The first group whose first file
/// is not empty is used.
fn blkio(directory: &Directory) -> Result<BlkioStats, Error> {
    let mut stats = BlkioStats::default();
    for (prefix, suffix) in [
        ("blkio.bfq", "_recursive"),
        ("blkio", "_recursive"),
        ("blkio.throttle", "_recursive"),
        ("blkio.throttle", ""),
    ] {
        let read = |name: &str| table(directory, &format!("{prefix}.{name}{suffix}"));
        let serviced = read("io_serviced")?;
        if serviced.is_empty() {
            continue;
        }
        stats.io_serviced_recursive = serviced;
        stats.io_service_bytes_recursive = read("io_service_bytes")?;
        stats.sectors_recursive = read("sectors")?;
        stats.io_service_time_recursive = read("io_service_time")?;
        stats.io_wait_time_recursive = read("io_wait_time")?;
        stats.io_merged_recursive = read("io_merged")?;
        stats.io_queued_recursive = read("io_queued")?;
        stats.io_time_recursive = read("time")?;
        break;
    }
    Ok(stats)
}

/// Parses lines of the form `MAJOR:MINOR [OPERATION] VALUE`. Returns no entries if the file is missing.
fn table(directory: &Directory, name: &str) -> Result<Vec<BlkioEntry>, Error> {
    let text = optional(directory.read(name).map_err(Error::from))?.unwrap_or_default();
    let mut entries = Vec::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (device, op, value) = match words.as_slice() {
            ["Total", _] => continue,
            [device, value] => (device, "", value),
            [device, op, value] => (device, *op, value),
            _ => return Err(directory.unreadable(name, line)),
        };
        let (Some((major, minor)), Some(value)) = (parse::device(device), parse::number(value))
        else {
            return Err(directory.unreadable(name, line));
        };
        entries.push(BlkioEntry { major, minor, op: op.to_string(), value });
    }
    Ok(entries)
}

fn hugetlb(directory: &Directory, size: &str) -> Result<HugetlbStats, Error> {
    let read = |prefix: &str| -> Result<_, Error> {
        Ok(HugetlbStats {
            usage: directory.read_number(&format!("{prefix}.usage_in_bytes"))?,
            max: directory.read_number(&format!("{prefix}.max_usage_in_bytes"))?,
            failcnt: directory.read_number(&format!("{prefix}.failcnt"))?,
        })
    };
    // Reserved huge pages are counted since Linux 5.7.
    match optional(read(&format!("hugetlb.{size}.rsvd")))? {
        Some(usage) => Ok(usage),
        None => read(&format!("hugetlb.{size}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn block_devices() {
        let cgroup = Fixture::new(&["blkio.bfq.io_serviced_recursive"]);
        cgroup
            .put("blkio.throttle.io_serviced_recursive", "8:0 Read 3\n8:0 Total 3\nTotal 3\n")
            .put("blkio.throttle.io_service_bytes_recursive", "8:0 Read 4096\nTotal 4096\n");
        let stats = blkio(&cgroup.directory()).unwrap();
        let op = |entry: &BlkioEntry| (entry.major, entry.op.clone(), entry.value);
        let serviced: Vec<_> = stats.io_serviced_recursive.iter().map(op).collect();
        assert_eq!(serviced, [(8, "Read".into(), 3), (8, "Total".into(), 3)]);
        assert_eq!(stats.io_service_bytes_recursive.len(), 1);
        assert!(stats.sectors_recursive.is_empty());
        cgroup.put("blkio.throttle.io_service_bytes_recursive", "nonsense\n");
        assert!(matches!(blkio(&cgroup.directory()), Err(Error::Unreadable { .. })));
    }
}
