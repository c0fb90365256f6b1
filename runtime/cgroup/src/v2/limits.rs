//! Writes `linux.resources` to the files of cgroup v2 (cgroup-v2.rst).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display};
use rustix::fs::OFlags;
use rustix::io::Errno;
use spec::resources::{BlockIo, Cpu, HugepageLimit, Memory, Rdma, Resources, ThrottleDevice};

use super::weight;
use crate::Error;
use crate::directory::{Directory, File};

/// Sets all limits. The device rules are set elsewhere.
///
/// # Errors
/// [`Error::NoController`], [`Error::Invalid`], and failing writes.
pub(crate) fn set(directory: &Directory, resources: &Resources) -> Result<(), Error> {
    // The pattern names all fields: a new limit does not compile before it is written here, or in `ignored`.
    let Resources {
        devices: _,
        memory: memory_limits,
        cpu: cpu_limits,
        pids: task_limits,
        block_io,
        hugepage_limits,
        // Named by `ignored`.
        network: _,
        rdma: rdma_limits,
        unified: files,
    } = resources;
    if let Some(tasks) = task_limits.as_ref().and_then(|pids| pids.limit) {
        limit(directory, "pids.max", OrMax(task_limit(tasks)))?;
    }
    if let Some(limits) = memory_limits {
        memory(directory, limits)?;
    }
    if let Some(limits) = block_io {
        io(directory, limits)?;
    }
    if let Some(limits) = cpu_limits {
        cpu(directory, limits)?;
        cpuset(directory, limits)?;
    }
    hugetlb(directory, hugepage_limits)?;
    if !rdma_limits.is_empty() {
        let file = open(directory, "rdma.max", OFlags::WRONLY)?;
        for (device, limits) in rdma_limits {
            write_rdma(&file, device, limits)?;
        }
    }
    for (name, value) in files {
        unified(directory, name, value)?;
    }
    Ok(())
}

/// Returns the names of settings in `resources` that only cgroup v1 supports. As in runc, they are ignored on cgroup
/// v2; the caller prints a warning.
pub fn ignored(resources: &Resources) -> impl Iterator<Item = &'static str> {
    let memory = resources.memory.as_ref();
    let cpu = resources.cpu.as_ref();
    let io = resources.block_io.as_ref();
    let network = resources.network.as_ref();
    let leaf = |io: &BlockIo| {
        io.leaf_weight.is_some() || io.weight_device.iter().any(|d| d.leaf_weight.is_some())
    };
    [
        ("memory.kernel", memory.is_some_and(|memory| memory.kernel.is_some())),
        ("memory.kernelTCP", memory.is_some_and(|memory| memory.kernel_tcp.is_some())),
        ("memory.swappiness", memory.is_some_and(|memory| memory.swappiness.is_some())),
        (
            "memory.disableOOMKiller",
            memory.is_some_and(|memory| memory.disable_oom_killer == Some(true)),
        ),
        ("memory.useHierarchy", memory.is_some_and(|m| m.use_hierarchy == Some(false))),
        ("cpu.realtimeRuntime", cpu.is_some_and(|cpu| cpu.realtime_runtime.is_some())),
        ("cpu.realtimePeriod", cpu.is_some_and(|cpu| cpu.realtime_period.is_some())),
        ("blockIO.leafWeight", io.is_some_and(leaf)),
        ("network.classID", network.is_some_and(|network| network.class_id.is_some())),
        ("network.priorities", network.is_some_and(|network| !network.priorities.is_empty())),
    ]
    .into_iter()
    .filter_map(|(name, is_set)| is_set.then_some(name))
}

/// Writes one limit to the file `name`.
fn limit(directory: &Directory, name: &str, value: impl Display) -> Result<(), Error> {
    directory.write(name, value).map_err(|error| explain(directory, name, error))
}

/// Opens a file of a controller.
pub(crate) fn open<'a>(
    directory: &'a Directory,
    name: &'a str,
    flags: OFlags,
) -> Result<File<'a>, Error> {
    directory.file(name, flags).map_err(|error| explain(directory, name, error))
}

/// Converts ENOENT for a controller's file to [`Error::NoController`].
fn explain(directory: &Directory, name: &str, error: sys::Error) -> Error {
    let Some((controller, _)) = name.split_once('.') else { return error.into() };
    let mut page = [0; 256];
    match directory.read_short("cgroup.controllers", &mut page) {
        Ok(have)
            if matches!(error.errno, Errno::NOENT | Errno::ACCESS | Errno::PERM)
                && controller != "cgroup"
                && !have.split_whitespace().any(|name| name == controller) =>
        {
            Error::NoController {
                controller: controller.to_string(),
                file: name.to_string(),
                directory: directory.path().to_string(),
                unified: true,
            }
        }
        _ => error.into(),
    }
}

/// A limit, printed as `max` if it is negative.
struct OrMax(i64);

impl Display for OrMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 { f.write_str("max") } else { self.0.fmt(f) }
    }
}

/// Converts a task limit. Since runtime-spec 1.3 (config-linux.md, PIDs), 0 is a limit; before that version, some
/// implementations treated 0 as "unlimited". As in runc 1.5, 0 is converted to 1. This has the same effect inside the
/// container, where fork fails. systemd does not accept 0, and with a limit of 0 no process could be created in the
/// cgroup.
pub(crate) fn task_limit(tasks: i64) -> i64 {
    if tasks == 0 { 1 } else { tasks }
}

fn memory(directory: &Directory, memory: &Memory) -> Result<(), Error> {
    let invalid = |reason: &str| Error::Invalid { setting: "memory", reason: reason.to_string() };
    check_usage(directory, memory)?;
    let bytes = memory.limit.unwrap_or(0);
    let swap = memory.swap.unwrap_or(0);
    let present = if bytes == 0 && swap > 0 { present_limit(directory)? } else { bytes };
    if let Some(swap) = weight::swap(swap, present).map_err(invalid)? {
        match limit(directory, "memory.swap.max", OrMax(swap)) {
            // Without swap accounting, swap cannot be limited, so there is nothing to write.
            Err(Error::System(error)) if error.errno == Errno::NOENT && swap <= 0 => {}
            result => result?,
        }
    }
    if bytes != 0 {
        limit(directory, "memory.max", OrMax(bytes))?;
    }
    match memory.reservation {
        None | Some(0) => Ok(()),
        Some(bytes) => limit(directory, "memory.low", OrMax(bytes)),
    }
}

/// If `check_before_update` is requested, returns an error for a limit that is not above the current usage.
pub(crate) fn check_usage(directory: &Directory, memory: &Memory) -> Result<(), Error> {
    let (bytes, swap) = (memory.limit.unwrap_or(0), memory.swap.unwrap_or(0));
    if memory.check_before_update != Some(true) || (bytes <= 0 && swap <= 0) {
        return Ok(());
    }
    // If the file is missing, the usage is unknown and not checked.
    let usage = directory.read_number("memory.current").unwrap_or(0);
    for (name, wanted) in [("memory+swap", swap), ("memory", bytes)] {
        if wanted > 0 && wanted.unsigned_abs() <= usage {
            let reason = format!("rejecting {name} limit {wanted} <= usage {usage}");
            return Err(Error::Invalid { setting: "memory", reason });
        }
    }
    Ok(())
}

/// Returns the current memory limit, or 0 if there is none. The current limit is needed if only the
/// swap limit is updated.
fn present_limit(directory: &Directory) -> Result<i64, Error> {
    let bytes = directory.read_number("memory.max").map_err(|error| match error {
        Error::System(error) => explain(directory, "memory.max", error),
        error => error,
    })?;
    Ok(i64::try_from(bytes).unwrap_or(0))
}

fn cpu(directory: &Directory, cpu: &Cpu) -> Result<(), Error> {
    if let Some(idle) = cpu.idle {
        limit(directory, "cpu.idle", idle)?;
    }
    // An idle cgroup has the minimum weight, and the kernel refuses any other weight.
    let shares = cpu.shares.filter(|_| cpu.idle != Some(1));
    if let Some(weight) = shares.and_then(weight::cpu_weight) {
        limit(directory, "cpu.weight", weight)?;
    }
    let bandwidth = bandwidth(directory, cpu)?;
    let burst = cpu.burst.map(|burst| limit(directory, "cpu.max.burst", burst));
    match (burst, bandwidth) {
        // EINVAL: the burst is too large for the old quota, but it may be valid for the new one.
        (Some(Err(Error::System(error))), Some(bandwidth)) if error.errno == Errno::INVAL => {
            limit(directory, "cpu.max", bandwidth)?;
            limit(directory, "cpu.max.burst", cpu.burst.unwrap_or(0))
        }
        (Some(Err(error)), _) => Err(error),
        (_, Some(bandwidth)) => limit(directory, "cpu.max", bandwidth),
        (_, None) => Ok(()),
    }
}

/// Returns the value to write to cpu.max. If it contains only a quota, the kernel leaves the period unchanged.
fn bandwidth(directory: &Directory, cpu: &Cpu) -> Result<Option<String>, Error> {
    let quota = cpu.quota.filter(|quota| *quota != 0).map(OrMax);
    let period = cpu.period.filter(|period| *period != 0);
    Ok(match (quota, period) {
        (None, None) => None,
        (Some(quota), None) => Some(quota.to_string()),
        (Some(quota), Some(period)) => Some(format!("{quota} {period}")),
        (None, Some(period)) => {
            let mut page = [0; 64];
            let present = directory
                .read_short("cpu.max", &mut page)
                .map_err(|error| explain(directory, "cpu.max", error))?;
            let quota = present.split_whitespace().next().unwrap_or("max");
            Some(format!("{quota} {period}"))
        }
    })
}

fn cpuset(directory: &Directory, cpu: &Cpu) -> Result<(), Error> {
    for (file, list) in [("cpuset.cpus", &cpu.cpus), ("cpuset.mems", &cpu.mems)] {
        if !list.is_empty() {
            limit(directory, file, list)?;
        }
    }
    Ok(())
}

fn io(directory: &Directory, io: &BlockIo) -> Result<(), Error> {
    let devices = io.weight_device.iter().filter_map(|device| {
        let weight = device.weight.filter(|weight| *weight != 0)?;
        Some((device.major, device.minor, weight))
    });
    let default = io.weight.filter(|weight| *weight != 0);
    if default.is_some() || devices.clone().next().is_some() {
        // The BFQ scheduler has its own file, with weights in the range of v1.
        let (file, is_bfq) = match directory.file("io.bfq.weight", OFlags::WRONLY) {
            Ok(file) => (file, true),
            Err(error) if error.errno == Errno::NOENT => {
                (open(directory, "io.weight", OFlags::WRONLY)?, false)
            }
            Err(error) => return Err(error.into()),
        };
        let convert = |v1: u16| if is_bfq { v1.into() } else { weight::io_weight(v1).unwrap_or(1) };
        if let Some(weight) = default {
            file.write(format_args!("{}\n", convert(weight)))?;
        }
        for (major, minor, weight) in devices {
            file.write(format_args!("{major}:{minor} {}\n", convert(weight)))?;
        }
    }
    let limits = [
        ("rbps", &io.throttle_read_bps_device),
        ("wbps", &io.throttle_write_bps_device),
        ("riops", &io.throttle_read_iops_device),
        ("wiops", &io.throttle_write_iops_device),
    ];
    if limits.iter().all(|(_, devices)| devices.is_empty()) {
        return Ok(());
    }
    let file = open(directory, "io.max", OFlags::WRONLY)?;
    for (key, devices) in limits {
        for ThrottleDevice { major, minor, rate } in devices {
            // On v1, 0 removes a limit; on v2, 0 is out of range, and `max` removes it.
            match rate {
                0 => file.write(format_args!("{major}:{minor} {key}=max\n"))?,
                rate => file.write(format_args!("{major}:{minor} {key}={rate}\n"))?,
            }
        }
    }
    Ok(())
}

fn hugetlb(directory: &Directory, limits: &[HugepageLimit]) -> Result<(), Error> {
    for HugepageLimit { page_size, limit: bytes } in limits {
        check_page_size(page_size)?;
        limit(directory, &format!("hugetlb.{page_size}.max"), bytes)?;
        // Reserved huge pages are counted since Linux 5.7.
        match limit(directory, &format!("hugetlb.{page_size}.rsvd.max"), bytes) {
            Err(Error::System(error)) if error.errno == Errno::NOENT => {}
            result => result?,
        }
    }
    Ok(())
}

/// Checks a huge page size, because it becomes a part of a file's name.
pub(crate) fn check_page_size(page_size: &str) -> Result<(), Error> {
    if !page_size.is_empty() && page_size.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let reason = format!("invalid page size {page_size:?}: use one such as 2MB or 1GB");
    Err(Error::Invalid { setting: "hugepageLimits", reason })
}

/// Writes one line to rdma.max, whose format is the same on v1 and v2.
pub(crate) fn write_rdma(file: &File<'_>, device: &str, limits: &Rdma) -> Result<(), Error> {
    let limit = |key: &str, count: Option<u32>| match count {
        Some(count) => format!(" {key}={count}"),
        None => String::new(),
    };
    let handles = limit("hca_handle", limits.hca_handles);
    let objects = limit("hca_object", limits.hca_objects);
    if handles.is_empty() && objects.is_empty() {
        return Ok(());
    }
    Ok(file.write(format_args!("{device}{handles}{objects}\n"))?)
}

/// Writes a value to the file `name`. Several lines are written one by one, as the kernel requires.
fn unified(directory: &Directory, name: &str, value: &str) -> Result<(), Error> {
    let invalid = |what: &str| Error::Invalid {
        setting: "unified",
        reason: format!("unified resource {name:?} {what}"),
    };
    if name.contains(['/', '\0']) {
        return Err(invalid("must be a file name (no slashes)"));
    }
    let parts: Vec<_> = name.splitn(2, '.').collect();
    if parts.len() < 2 || parts.iter().any(|part| part.is_empty() || *part == ".") {
        return Err(invalid("must be in the form CONTROLLER.PARAMETER"));
    }
    // With such a file, a configuration could move a process of the host into the container, or kill processes.
    if ["cgroup.procs", "cgroup.threads", "cgroup.kill"].contains(&name) {
        return Err(invalid("is not a limit: it acts on processes"));
    }
    let file = open(directory, name, OFlags::WRONLY)?;
    if value.is_empty() {
        file.write("")?;
    }
    for line in value.split_inclusive('\n') {
        file.write(line)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
