//! Reads the statistics from cgroup v2.

use alloc::format;
use alloc::string::{String, ToString};

use super::{
    BlkioEntry, BlkioStats, CpuStats, HugetlbStats, MemoryStats, MemoryUsage, PidsStats, Pressure,
    PressureData, Stats, huge_page_sizes, optional,
};
use crate::Error;
use crate::directory::Directory;
use crate::parse;

pub(super) fn stats(directory: &Directory) -> Result<Stats, Error> {
    let mut stats = Stats {
        cpu: optional(cpu(directory))?.unwrap_or_default(),
        memory: optional(memory(directory))?.unwrap_or_default(),
        pids: pids(directory)?,
        blkio: optional(blkio(directory))?.unwrap_or_default(),
        ..Stats::default()
    };
    stats.cpu.psi = pressure(directory, "cpu.pressure")?;
    stats.memory.psi = pressure(directory, "memory.pressure")?;
    stats.blkio.psi = pressure(directory, "io.pressure")?;
    for size in huge_page_sizes() {
        if let Some(usage) = optional(hugetlb(directory, &size))? {
            stats.hugetlb.insert(size, usage);
        }
    }
    Ok(stats)
}

fn cpu(directory: &Directory) -> Result<CpuStats, Error> {
    let mut stats = CpuStats::default();
    for (key, value) in parse::keys(&directory.read("cpu.stat")?) {
        let nanoseconds = value.saturating_mul(1000);
        match key {
            "usage_usec" => stats.usage.total = nanoseconds,
            "user_usec" => stats.usage.user = nanoseconds,
            "system_usec" => stats.usage.kernel = nanoseconds,
            "nr_periods" => stats.throttling.periods = value,
            "nr_throttled" => stats.throttling.throttled_periods = value,
            "throttled_usec" => stats.throttling.throttled_time = nanoseconds,
            _ => {}
        }
    }
    Ok(stats)
}

fn memory(directory: &Directory) -> Result<MemoryStats, Error> {
    let text = directory.read("memory.stat")?;
    let usage = memory_usage(directory, "memory")?;
    let swap = optional(memory_usage(directory, "memory.swap"))?.unwrap_or_default();
    Ok(MemoryStats {
        cache: parse::key(&text, "file").unwrap_or(0),
        usage,
        // v2 counts swap separately, but runc's format contains memory and swap together. The peak of this sum is not
        // known.
        swap: MemoryUsage {
            usage: swap.usage.saturating_add(usage.usage),
            limit: swap.limit.saturating_add(usage.limit),
            ..MemoryUsage::default()
        },
        raw: parse::keys(&text).map(|(key, value)| (key.to_string(), value)).collect(),
        ..MemoryStats::default()
    })
}

fn memory_usage(directory: &Directory, prefix: &str) -> Result<MemoryUsage, Error> {
    let read = |name: &str| directory.read_number(&format!("{prefix}.{name}"));
    Ok(MemoryUsage {
        usage: read("current")?,
        limit: read("max")?,
        // memory.peak exists since Linux 5.19, and memory.swap.peak since Linux 6.5.
        max: optional(read("peak"))?.unwrap_or(0),
        failcnt: 0,
    })
}

/// Reads the number of tasks and its limit. If there is no pids controller, counts the processes, as runc does.
fn pids(directory: &Directory) -> Result<PidsStats, Error> {
    let Some(current) = optional(directory.read_number("pids.current"))? else {
        let own = directory.read("cgroup.procs").or_else(|error| match error.errno {
            sys::Errno::OPNOTSUPP => directory.read("cgroup.threads"),
            _ => Err(error),
        })?;
        return Ok(PidsStats { current: own.lines().count() as u64, limit: 0 });
    };
    let limit = directory.read_number("pids.max")?;
    Ok(PidsStats { current, limit: if limit == u64::MAX { 0 } else { limit } })
}

/// Parses io.stat, which has lines of the form `MAJOR:MINOR key=value …`, one per device. Like runc, distributes the
/// values among the tables of v1.
fn blkio(directory: &Directory) -> Result<BlkioStats, Error> {
    let mut stats = BlkioStats::default();
    for line in directory.read("io.stat")?.lines() {
        let mut words = line.split_whitespace();
        let Some((major, minor)) = words.next().and_then(parse::device) else { continue };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let (table, op) = match key {
                "rbytes" => (&mut stats.io_service_bytes_recursive, "Read"),
                "wbytes" => (&mut stats.io_service_bytes_recursive, "Write"),
                "rios" => (&mut stats.io_serviced_recursive, "Read"),
                "wios" => (&mut stats.io_serviced_recursive, "Write"),
                _ => continue,
            };
            let value =
                parse::number(value).ok_or_else(|| directory.unreadable("io.stat", line))?;
            table.push(BlkioEntry { major, minor, op: String::from(op), value });
        }
    }
    Ok(stats)
}

fn hugetlb(directory: &Directory, size: &str) -> Result<HugetlbStats, Error> {
    // Reserved huge pages are counted since Linux 5.7.
    let usage = optional(directory.read_number(&format!("hugetlb.{size}.rsvd.current")))?;
    Ok(HugetlbStats {
        usage: match usage {
            Some(usage) => usage,
            None => directory.read_number(&format!("hugetlb.{size}.current"))?,
        },
        max: 0,
        failcnt: directory.read_key(&format!("hugetlb.{size}.events"), "max")?,
    })
}

/// Reads a pressure file. Returns `None` before Linux 4.20, or if PSI is disabled.
fn pressure(directory: &Directory, name: &str) -> Result<Option<Pressure>, Error> {
    let text = match directory.read(name) {
        Ok(text) => text,
        Err(error) if matches!(error.errno, sys::Errno::NOENT | sys::Errno::OPNOTSUPP) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let data = match line.split_once(' ') {
            Some(("some", data)) => pressure_data(data).map(|data| pressure.some = data),
            Some(("full", data)) => pressure_data(data).map(|data| pressure.full = data),
            _ => continue,
        };
        data.ok_or_else(|| directory.unreadable(name, line))?;
    }
    Ok(Some(pressure))
}

/// Parses `avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn pressure_data(text: &str) -> Option<PressureData> {
    let mut data = PressureData::default();
    for word in text.split_whitespace() {
        let (key, value) = word.split_once('=')?;
        match key {
            "avg10" => data.avg10 = value.parse().ok()?,
            "avg60" => data.avg60 = value.parse().ok()?,
            "avg300" => data.avg300 = value.parse().ok()?,
            "total" => data.total = value.parse().ok()?,
            _ => {}
        }
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn everything_a_cgroup_has() {
        let cgroup = Fixture::new(&[]);
        cgroup
            .put("cpu.stat", "usage_usec 7\nuser_usec 4\nsystem_usec 3\nnr_periods 2\nnr_throttled 1\nthrottled_usec 9\n")
            .put("cpu.pressure", "some avg10=1.50 avg60=0.00 avg300=0.25 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n")
            .put("memory.stat", "anon 1\nfile 4096\nkernel_stack 0\n")
            .put("memory.current", "8192\n")
            .put("memory.max", "max\n")
            .put("memory.peak", "9000\n")
            .put("memory.swap.current", "100\n")
            .put("memory.swap.max", "1000\n")
            .put("pids.current", "3\n")
            .put("pids.max", "max\n")
            .put("io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n253:1 \n");
        let stats = stats(&cgroup.directory()).unwrap();
        assert_eq!(
            (stats.cpu.usage.total, stats.cpu.usage.user, stats.cpu.usage.kernel),
            (7000, 4000, 3000)
        );
        assert_eq!(stats.cpu.throttling.throttled_time, 9000);
        let pressure = stats.cpu.psi.unwrap();
        assert_eq!((pressure.some.avg10, pressure.some.total, pressure.full.total), (1.5, 12, 3));
        assert_eq!(stats.memory.cache, 4096);
        assert_eq!(stats.memory.raw.len(), 3);
        assert_eq!((stats.memory.usage.usage, stats.memory.usage.max), (8192, 9000));
        assert_eq!(stats.memory.usage.limit, u64::MAX);
        assert_eq!((stats.memory.swap.usage, stats.memory.swap.limit), (8292, u64::MAX));
        assert_eq!(stats.pids, PidsStats { current: 3, limit: 0 });
        assert_eq!(stats.blkio.io_serviced_recursive[1].op, "Write");
        assert_eq!(stats.blkio.io_serviced_recursive[1].value, 4);
        assert_eq!(stats.blkio.io_service_bytes_recursive.len(), 2);
        assert!(stats.memory.psi.is_none());
    }

    #[test]
    fn no_controllers() {
        let cgroup = Fixture::new(&[]);
        let stats = stats(&cgroup.put("cgroup.procs", "7\n8\n").directory()).unwrap();
        assert_eq!(stats.pids.current, 2);
        assert_eq!(stats.memory, MemoryStats::default());
    }
}
