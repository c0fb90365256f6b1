//! Converts `linux.resources` to properties of a systemd unit (systemd.resource-control(5)).
//!
//! A setting for which systemd has no property is only written to the cgroup's files. All other settings are both set
//! as properties and written to the files, because the files accept more precise values.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use spec::resources::{Cpu, DeviceKind, Resources};

use crate::Error;
use crate::devices::Rule;
use crate::devices::legacy::Policy;
use crate::systemd::{Property, Value};
use crate::v2::{limits::task_limit, weight};

/// The kernel's default for the CPU bandwidth period, in microseconds.
const DEFAULT_PERIOD: u64 = 100_000;
/// 1 % of a CPU, in microseconds of CPU time per second. systemd rounds quotas to multiples of this value.
const PERCENT: u64 = 10_000;
/// The maximum length of a CPU mask, in bits. No kernel supports that many CPUs.
const MAX_CPUS: usize = 1 << 16;
/// The first systemd version in which a CPUWeight of 0 sets cpu.idle.
pub(super) const IDLE_SINCE: u32 = 252;

/// Returns `resources` with the CPU quota that systemd will set: rounded up to a whole percent of a CPU.
pub(crate) fn rounded(resources: &Resources) -> Cow<'_, Resources> {
    let Some(Cpu { quota: Some(quota @ 1..), period, .. }) = &resources.cpu else {
        return Cow::Borrowed(resources);
    };
    let period = period.filter(|period| *period != 0).unwrap_or(DEFAULT_PERIOD);
    let exact = quota_per_second(*quota, period);
    let whole = u128::from(exact) * u128::from(period) / 1_000_000;
    let mut resources = resources.clone();
    if let (Some(cpu), Ok(whole)) = (&mut resources.cpu, i64::try_from(whole))
        && whole > *quota
    {
        cpu.quota = Some(whole);
    }
    Cow::Owned(resources)
}

/// Returns the properties for the settings in `resources`. `idles` means that this version of systemd supports idle
/// cgroups.
pub(crate) fn of_resources(
    resources: &Resources,
    unified: bool,
    idles: bool,
) -> Result<Vec<Property>, Error> {
    // The pattern names all fields: a new limit does not compile before it is decided here whether it is a property.
    let Resources {
        devices: rules,
        memory,
        cpu,
        pids,
        block_io,
        unified: _,
        // systemd has no properties for these.
        hugepage_limits: _,
        network: _,
        rdma: _,
    } = resources;
    let mut list = devices(rules, unified)?;
    if let Some(memory) = memory {
        let limit = memory.limit.unwrap_or(0);
        if limit != 0 {
            let name = if unified { "MemoryMax" } else { "MemoryLimit" };
            list.push(Property::number(name, or_infinity(limit)));
        }
        if unified {
            let low = memory.reservation.filter(|low| *low != 0);
            list.extend(low.map(|low| Property::number("MemoryLow", or_infinity(low))));
            // If swap is limited without a memory limit, no property is set: the code that writes the files reads the
            // current memory limit, or reports why the value is invalid.
            if let Ok(Some(swap)) = weight::swap(memory.swap.unwrap_or(0), limit) {
                list.push(Property::number("MemorySwapMax", or_infinity(swap)));
            }
        }
    }
    if let Some(cpu) = cpu {
        add_cpu(&mut list, cpu, unified, idles)?;
    }
    if let Some(tasks) = pids.as_ref().and_then(|pids| pids.limit) {
        list.push(Property::number("TasksMax", or_infinity(task_limit(tasks))));
    }
    let weight = block_io.as_ref().and_then(|io| io.weight).filter(|weight| *weight != 0);
    if let (Some(weight), false) = (weight, unified) {
        list.push(Property::number("BlockIOWeight", weight.into()));
    }
    add_unified(&mut list, resources, idles)?;
    Ok(list)
}

fn add_cpu(list: &mut Vec<Property>, cpu: &Cpu, unified: bool, idles: bool) -> Result<(), Error> {
    let shares = cpu.shares.filter(|shares| *shares != 0);
    if unified && cpu.idle == Some(1) && idles {
        list.push(Property::number("CPUWeight", 0));
    } else if let (Some(weight), true) = (shares.and_then(weight::cpu_weight), unified) {
        list.push(Property::number("CPUWeight", weight));
    } else if let (Some(shares), false) = (shares, unified) {
        list.push(Property::number("CPUShares", shares));
    }
    add_quota(list, cpu.quota.unwrap_or(0), cpu.period.unwrap_or(0));
    for (name, setting, cpus) in
        [("AllowedCPUs", "cpu.cpus", &cpu.cpus), ("AllowedMemoryNodes", "cpu.mems", &cpu.mems)]
    {
        if !cpus.is_empty() {
            list.push(Property::new(name, Value::Bytes(mask(setting, cpus)?)));
        }
    }
    Ok(())
}

/// Adds the CPU quota. A quota of 0 means that none is specified. A negative quota means no limit, and so does a period
/// without a quota.
fn add_quota(list: &mut Vec<Property>, quota: i64, period: u64) {
    if period != 0 {
        list.push(Property::number("CPUQuotaPeriodUSec", period));
    }
    if quota != 0 || period != 0 {
        let period = if period == 0 { DEFAULT_PERIOD } else { period };
        let time = if quota > 0 { quota_per_second(quota, period) } else { u64::MAX };
        list.push(Property::number("CPUQuotaPerSecUSec", time));
    }
}

/// Returns the quota in microseconds of CPU time per second, rounded up to a whole percent of a CPU.
fn quota_per_second(quota: i64, period: u64) -> u64 {
    let exact = u128::from(quota.unsigned_abs()) * 1_000_000 / u128::from(period.max(1));
    let percents = exact.div_ceil(PERCENT.into());
    u64::try_from(percents).ok().and_then(|p| p.checked_mul(PERCENT)).unwrap_or(u64::MAX - 1)
}

/// Adds those settings of `linux.resources.unified` for which systemd has properties.
fn add_unified(list: &mut Vec<Property>, resources: &Resources, idles: bool) -> Result<(), Error> {
    let files = &resources.unified;
    let is_idle = |value: &String| value.trim() == "1" && idles;
    let idle = files.get("cpu.idle").is_some_and(is_idle);
    for (file, value) in files {
        let value = value.trim();
        let invalid = || Error::Invalid {
            setting: "unified",
            reason: format!("{file}: {value:?} is not a valid value"),
        };
        let number = || match value {
            "max" => Ok(u64::MAX),
            value => value.parse().map_err(|_| invalid()),
        };
        let property = match &**file {
            "cpu.idle" if idle => Property::number("CPUWeight", 0),
            "cpu.weight" if !idle => Property::number("CPUWeight", number()?),
            "cpu.max" => {
                let mut words = value.split_whitespace();
                let quota = match words.next() {
                    Some("max") => 0,
                    Some(quota) => quota.parse().map_err(|_| invalid())?,
                    None => return Err(invalid()),
                };
                let period = words.next().map(str::parse).transpose().map_err(|_| invalid())?;
                add_quota(list, quota, period.unwrap_or(DEFAULT_PERIOD));
                continue;
            }
            "cpuset.cpus" => Property::new("AllowedCPUs", Value::Bytes(mask("unified", value)?)),
            "cpuset.mems" => {
                Property::new("AllowedMemoryNodes", Value::Bytes(mask("unified", value)?))
            }
            "memory.high" => Property::number("MemoryHigh", number()?),
            "memory.low" => Property::number("MemoryLow", number()?),
            "memory.min" => Property::number("MemoryMin", number()?),
            "memory.max" => Property::number("MemoryMax", number()?),
            "memory.swap.max" => Property::number("MemorySwapMax", number()?),
            // systemd does not accept a limit of 0.
            "pids.max" => Property::number("TasksMax", number()?.max(1)),
            _ => continue,
        };
        list.push(property);
    }
    Ok(())
}

fn or_infinity(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Converts a list such as `0-3,7` to a bit mask, whose first byte contains the lowest bits.
fn mask(setting: &'static str, list: &str) -> Result<Vec<u8>, Error> {
    let invalid =
        || Error::Invalid { setting, reason: format!("{list:?} is not a list of numbers") };
    let mut bits = Vec::new();
    for range in list.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().map_err(|_| invalid());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= MAX_CPUS {
            return Err(invalid());
        }
        bits.resize(bits.len().max(last / 8 + 1), 0);
        for (index, byte) in bits.iter_mut().enumerate().skip(first / 8) {
            for bit in 0..8 {
                if (first..=last).contains(&(index * 8 + bit)) {
                    *byte |= 1 << bit;
                }
            }
        }
    }
    if bits.is_empty() { Err(invalid()) } else { Ok(bits) }
}

/// Returns the device rules as a list of allowed devices; the unit denies all others. If systemd cannot express a rule,
/// the result depends on the cgroup version. On v2, systemd checks nothing, because dayfly's own eBPF program checks
/// all rules. On v1, the list omits everything that systemd cannot express. When systemd writes the list again at a
/// `daemon-reload`, the cgroup then allows too little rather than too much.
fn devices(rules: &[spec::resources::DeviceRule], unified: bool) -> Result<Vec<Property>, Error> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let none = || Value::Array("(ss)".to_string(), Vec::new());
    let policy = |word: &str, list: Vec<Value>| {
        // The empty list removes all devices that were allowed before.
        let mut properties = vec![
            Property::new("DeviceAllow", none()),
            Property::new("DevicePolicy", Value::text(word)),
        ];
        if !list.is_empty() {
            let list = Value::Array("(ss)".to_string(), list);
            properties.push(Property::new("DeviceAllow", list));
        }
        properties
    };
    let too_strict =
        |list| if unified { policy("auto", Vec::new()) } else { policy("strict", list) };
    let Ok(wanted) = Policy::new(&Rule::list(rules)?) else {
        return Ok(too_strict(Vec::new()));
    };
    if wanted.allow {
        return Ok(match wanted.exceptions.is_empty() {
            true => policy("auto", Vec::new()),
            false => too_strict(Vec::new()),
        });
    }
    let list: Vec<_> = wanted.exceptions.iter().filter_map(device).collect();
    Ok(match list.len() == wanted.exceptions.len() {
        true => policy("strict", list),
        false => too_strict(list),
    })
}

/// Converts a rule to a device path and access letters; returns `None` if systemd cannot express the rule.
fn device(rule: &Rule) -> Option<Value> {
    let kind = match rule.kind {
        DeviceKind::Char => "char",
        DeviceKind::Block => "block",
        DeviceKind::All => return None,
    };
    let path = match (rule.major, rule.minor) {
        (None, None) => format!("{kind}-*"),
        (Some(major), None) => format!("{kind}-{major}"),
        (Some(major), Some(minor)) => format!("/dev/{kind}/{major}:{minor}"),
        (None, Some(_)) => return None,
    };
    Some(Value::Struct(vec![Value::String(path), Value::text(rule.access.letters())]))
}

#[cfg(test)]
#[path = "properties_tests.rs"]
mod tests;
