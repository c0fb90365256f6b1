//! Writes `linux.resources` to the files of cgroup v1 (Documentation/admin-guide/cgroup-v1).

use alloc::format;
use alloc::string::String;
use core::fmt::Display;
use rustix::fs::OFlags;
use rustix::io::Errno;
use spec::resources::{
    BlockIo, Cpu, InterfacePriority, Memory, Network, Resources, ThrottleDevice,
};

use super::{Legacy, require};
use crate::v2::limits::{check_page_size, task_limit, write_rdma};
use crate::{Controller, Error, directory::Directory};

/// Sets all limits. The device rules are set elsewhere.
///
/// # Errors
/// [`Error::UnifiedOnV1`], [`Error::NoController`], [`Error::Invalid`], and failing writes.
pub(crate) fn set(all: &[Legacy], resources: &Resources) -> Result<(), Error> {
    // The patterns in this file name all fields: a new limit does not compile before it is written here.
    let Resources {
        devices: _,
        memory: memory_limits,
        cpu: cpu_limits,
        pids,
        block_io,
        hugepage_limits,
        network: network_limits,
        rdma,
        unified,
    } = resources;
    if !unified.is_empty() {
        return Err(Error::UnifiedOnV1);
    }
    if let Some(limits) = cpu_limits {
        cpuset(all, limits)?;
    }
    if let Some(limits) = memory_limits.as_ref().filter(|memory| asks(memory)) {
        memory(require(all, Controller::Memory, "memory.limit_in_bytes")?, limits)?;
    }
    if let Some(limits) = cpu_limits.as_ref().and_then(time) {
        cpu(require(all, Controller::Cpu, "cpu.shares")?, &limits)?;
    }
    match pids.as_ref().and_then(|pids| pids.limit) {
        None => {}
        Some(..0) => require(all, Controller::Pids, "pids.max")?.write("pids.max", "max")?,
        Some(tasks) => {
            require(all, Controller::Pids, "pids.max")?.write("pids.max", task_limit(tasks))?;
        }
    }
    if let Some(limits) = block_io {
        blkio(all, limits)?;
    }
    for limit in hugepage_limits {
        check_page_size(&limit.page_size)?;
        let name = format!("hugetlb.{}.limit_in_bytes", limit.page_size);
        let directory = require(all, Controller::Hugetlb, &name)?;
        directory.write(&name, limit.limit)?;
        // Reserved huge pages are counted since Linux 5.7.
        let name = format!("hugetlb.{}.rsvd.limit_in_bytes", limit.page_size);
        ignore(Errno::NOENT, directory.write(&name, limit.limit))?;
    }
    if let Some(limits) = network_limits {
        network(all, limits)?;
    }
    if !rdma.is_empty() {
        let directory = require(all, Controller::Rdma, "rdma.max")?;
        let file = directory.file("rdma.max", OFlags::WRONLY)?;
        for (device, limits) in rdma {
            write_rdma(&file, device, limits)?;
        }
    }
    Ok(())
}

/// Returns `result`, but treats the error `errno` as success.
fn ignore(errno: Errno, result: Result<(), sys::Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.errno == errno => Ok(()),
        result => Ok(result?),
    }
}

/// Returns the value unless it is 0, which engines write if the user has not specified a value.
fn given<T: Default + PartialEq>(value: Option<T>) -> Option<T> {
    value.filter(|value| *value != T::default())
}

fn set_given(directory: &Directory, file: &str, value: Option<impl Display>) -> Result<(), Error> {
    Ok(value.map_or(Ok(()), |value| directory.write(file, value))?)
}

/// Returns whether any setting requires the memory controller.
fn asks(memory: &Memory) -> bool {
    let Memory {
        limit,
        reservation,
        swap,
        kernel,
        kernel_tcp,
        swappiness,
        disable_oom_killer,
        use_hierarchy,
        check_before_update: _,
    } = memory;
    [limit, reservation, swap, kernel, kernel_tcp].into_iter().any(|bytes| given(*bytes).is_some())
        || swappiness.is_some()
        || *disable_oom_killer == Some(true)
        || *use_hierarchy == Some(true)
}

const LIMIT: &str = "memory.limit_in_bytes";
const SWAP_LIMIT: &str = "memory.memsw.limit_in_bytes";

fn memory(directory: &Directory, memory: &Memory) -> Result<(), Error> {
    if memory.use_hierarchy == Some(true) {
        // Since Linux 5.11, usage always includes descendants, and this file may be missing.
        ignore(Errno::NOENT, directory.write("memory.use_hierarchy", 1))?;
    }
    memory_and_swap(directory, given(memory.limit), given(memory.swap))?;
    set_given(directory, "memory.soft_limit_in_bytes", given(memory.reservation))?;
    if let Some(bytes) = given(memory.kernel) {
        // This limit has been deprecated since Linux 5.4 and has had no effect since 5.16. The specification allows
        // runtimes to ignore it.
        match directory.write("memory.kmem.limit_in_bytes", bytes) {
            Err(error) if matches!(error.errno, Errno::NOENT | Errno::OPNOTSUPP) => {}
            result => result?,
        }
    }
    if let Some(bytes) = given(memory.kernel_tcp) {
        ignore(Errno::NOENT, directory.write("memory.kmem.tcp.limit_in_bytes", bytes))?;
    }
    if memory.disable_oom_killer == Some(true) {
        directory.write("memory.oom_control", 1)?;
    }
    match memory.swappiness {
        None => Ok(()),
        Some(swappiness @ 0..=100) => Ok(directory.write("memory.swappiness", swappiness)?),
        Some(swappiness) => Err(Error::Invalid {
            setting: "memory",
            reason: format!("invalid memory swappiness value: {swappiness} (valid range is 0-100)"),
        }),
    }
}

/// Sets the limit of memory, and the limit of memory and swap together, in the order that the kernel requires: the
/// former must never exceed the latter.
fn memory_and_swap(
    directory: &Directory,
    memory: Option<i64>,
    swap: Option<i64>,
) -> Result<(), Error> {
    // If memory is unlimited and no swap value is specified, both become unlimited, provided that swap accounting is
    // enabled.
    let swap = match (memory, swap) {
        (Some(-1), None) if directory.has(SWAP_LIMIT) => Some(-1),
        (_, swap) => swap,
    };
    let (Some(memory), Some(swap)) = (memory, swap) else {
        if let Some(memory) = memory {
            memory_limit(directory, memory)?;
        }
        return set_given(directory, SWAP_LIMIT, swap);
    };
    let is_rise = swap < 0 || directory.read_number(LIMIT)? < swap.unsigned_abs();
    if is_rise {
        directory.write(SWAP_LIMIT, swap)?;
        return memory_limit(directory, memory);
    }
    memory_limit(directory, memory)?;
    Ok(directory.write(SWAP_LIMIT, swap)?)
}

fn memory_limit(directory: &Directory, bytes: i64) -> Result<(), Error> {
    match directory.write(LIMIT, bytes) {
        // EBUSY: the kernel could not reclaim enough memory.
        Err(error) if error.errno == Errno::BUSY => {
            let usage = directory.read_number("memory.usage_in_bytes")?;
            let peak = directory.read_number("memory.max_usage_in_bytes")?;
            let reason = format!(
                "unable to set memory limit to {bytes} (current usage: {usage}, peak usage: {peak})"
            );
            Err(Error::Invalid { setting: "memory", reason })
        }
        result => Ok(result?),
    }
}

/// Returns the settings of `cpu` that limit CPU time; `None` if no such setting is specified.
fn time(cpu: &Cpu) -> Option<Cpu> {
    let time = Cpu {
        shares: given(cpu.shares),
        quota: given(cpu.quota),
        period: given(cpu.period),
        realtime_runtime: given(cpu.realtime_runtime),
        realtime_period: given(cpu.realtime_period),
        cpus: String::new(),
        mems: String::new(),
        burst: cpu.burst,
        idle: cpu.idle,
    };
    (time != Cpu::default()).then_some(time)
}

fn cpu(directory: &Directory, cpu: &Cpu) -> Result<(), Error> {
    if let Some(shares) = cpu.shares {
        directory.write("cpu.shares", shares)?;
        // The kernel changes a value that is out of range, without an error.
        let got = directory.read_number("cpu.shares")?;
        if got != shares {
            let bound = if shares > got { "maximum" } else { "minimum" };
            let reason = format!("the {bound} allowed cpu-shares is {got}");
            return Err(Error::Invalid { setting: "cpu", reason });
        }
    }
    let late_period = early(directory, "cpu.cfs_period_us", cpu.period, cpu.quota)?;
    let burst = cpu.burst.filter(|_| directory.has("cpu.cfs_burst_us"));
    let late_burst = early(directory, "cpu.cfs_burst_us", burst, cpu.quota)?;
    set_given(directory, "cpu.cfs_quota_us", cpu.quota)?;
    set_given(directory, "cpu.cfs_period_us", late_period)?;
    set_given(directory, "cpu.cfs_burst_us", late_burst)?;
    set_given(directory, "cpu.idle", cpu.idle)?;
    let period = cpu.realtime_period;
    let late_period = early(directory, "cpu.rt_period_us", period, cpu.realtime_runtime)?;
    set_given(directory, "cpu.rt_runtime_us", cpu.realtime_runtime)?;
    set_given(directory, "cpu.rt_period_us", late_period)
}

/// Writes a value whose validity depends on the current value of another file. `other` is the value that will be
/// written to that other file next, if there is one. If `other` is given and the kernel refuses the value of this file,
/// the value is returned, to be written after that file, and this is not an error.
fn early(
    directory: &Directory,
    file: &str,
    value: Option<u64>,
    other: Option<i64>,
) -> Result<Option<u64>, Error> {
    let Some(number) = value else { return Ok(None) };
    match directory.write(file, number) {
        Err(error) if error.errno == Errno::INVAL && other.is_some() => Ok(value),
        result => Ok(result.map(|()| None)?),
    }
}

fn cpuset(all: &[Legacy], cpu: &Cpu) -> Result<(), Error> {
    for (file, list) in [("cpuset.cpus", &cpu.cpus), ("cpuset.mems", &cpu.mems)] {
        if !list.is_empty() {
            require(all, Controller::Cpuset, file)?.write(file, list)?;
        }
    }
    Ok(())
}

fn blkio(all: &[Legacy], io: &BlockIo) -> Result<(), Error> {
    let directory = || require(all, Controller::Blkio, "blkio.weight");
    // Since Linux 5.0, which removed the CFQ scheduler, only BFQ supports weights.
    let weight_file = |name: &'static str, bfq: &'static str| -> Result<_, Error> {
        Ok(if directory()?.has(name) { name } else { bfq })
    };
    if let Some(weight) = given(io.weight) {
        directory()?.write(weight_file("blkio.weight", "blkio.bfq.weight")?, weight)?;
    }
    if let Some(weight) = given(io.leaf_weight) {
        directory()?.write("blkio.leaf_weight", weight)?;
    }
    for device in &io.weight_device {
        let line = |weight: u16| format!("{}:{} {weight}", device.major, device.minor);
        if let Some(weight) = given(device.weight) {
            let file = weight_file("blkio.weight_device", "blkio.bfq.weight_device")?;
            directory()?.write(file, line(weight))?;
        }
        if let Some(weight) = given(device.leaf_weight) {
            directory()?.write("blkio.leaf_weight_device", line(weight))?;
        }
    }
    for (name, devices) in [
        ("blkio.throttle.read_bps_device", &io.throttle_read_bps_device),
        ("blkio.throttle.write_bps_device", &io.throttle_write_bps_device),
        ("blkio.throttle.read_iops_device", &io.throttle_read_iops_device),
        ("blkio.throttle.write_iops_device", &io.throttle_write_iops_device),
    ] {
        for ThrottleDevice { major, minor, rate } in devices {
            directory()?.write(name, format_args!("{major}:{minor} {rate}"))?;
        }
    }
    Ok(())
}

fn network(all: &[Legacy], network: &Network) -> Result<(), Error> {
    if let Some(class) = given(network.class_id) {
        let name = "net_cls.classid";
        require(all, Controller::NetCls, name)?.write(name, class)?;
    }
    for InterfacePriority { name: interface, priority } in &network.priorities {
        let name = "net_prio.ifpriomap";
        let line = format_args!("{interface} {priority}");
        require(all, Controller::NetPrio, name)?.write(name, line)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
