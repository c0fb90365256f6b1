//! Conversion of values between the cgroup v1 and v2 files.

use super::{Assign, How, Present, bytes, hugetlb, is_size, refuse, translated};
use crate::cgroups::group::Version::{self, V1, V2};
use cgroup::weight::{blkio_weight, cpu_shares, cpu_weight, io_weight};
use std::collections::BTreeMap;

/// Returns the writes that set `key` to `value` in this interface.
///
/// # Errors
/// A key that this interface does not support; an invalid value.
pub fn assign(
    key: &str,
    value: &str,
    version: Version,
    present: Present<'_>,
) -> Result<Vec<Assign>, String> {
    let value = value.trim();
    refuse(key, version)?;
    if key == "cpu.weight" {
        weight(key, value)?;
    }
    let one = |file: &str, value: String| Ok(vec![Assign { file: file.to_owned(), value }]);
    if let Some(name) = hugetlb(key, version) {
        return one(&name, limit(key, value, version)?);
    }
    let Some(row) = translated(key, version).next() else {
        let is_limit = is_size(key);
        return one(key, if is_limit { limit(key, value, version)? } else { value.to_owned() });
    };
    let [file, _] = row.names(version);
    match (&row.how, version) {
        (How::Stat(..), V1) => Err(format!("{key} can't be set")),
        (How::Stat(..), V2) => Err(format!("{key} can't be set on cgroup v2")),
        (How::Period, V2) => {
            let present = present(file).unwrap_or_default();
            let quota = present.split_whitespace().next().unwrap_or("max");
            one(file, format!("{quota} {}", number(key, value)?))
        }
        (How::Quota | How::Period, V1) => {
            let mut words = value.split_whitespace();
            let quota = limit(key, words.next().unwrap_or_default(), V1)?;
            let period = words.next().map(|period| number(key, period)).transpose()?;
            let period = period.map(|period| ("cpu.cfs_period_us", period.to_string()));
            let all = period.into_iter().chain([("cpu.cfs_quota_us", quota)]);
            Ok(all.map(|(file, value)| Assign { file: file.to_owned(), value }).collect())
        }
        (How::Throttle(name), V2) => {
            let (device, rate) = device(key, value)?;
            let rate = if rate == "0" { "max" } else { rate };
            one(file, format!("{device} {name}={rate}"))
        }
        (How::Throttle(_), V1) => {
            let (device, limits) = device(key, value)?;
            let write = |limit: &str| {
                let (name, rate) =
                    limit.split_once('=').ok_or_else(|| format!("{key}: {limit:?}"))?;
                let is_meant = |how: &How| matches!(how, How::Throttle(of) if of == name);
                let row = translated(key, V1).find(|row| is_meant(&row.how));
                let row = row.ok_or_else(|| format!("{key}: {name:?} is not a key of io.max"))?;
                let rate = if rate == "max" { "0" } else { rate };
                Ok(Assign { file: row.v1.clone(), value: format!("{device} {rate}") })
            };
            limits.split_whitespace().map(write).collect()
        }
        (how, _) => one(file, convert(key, how, value, version, &memory(version, present))?),
    }
}

/// Returns the value of `key` in this interface, computed from the files that `present` reads; `None` if the file does
/// not exist.
///
/// # Errors
/// A key that this interface does not support.
pub fn show(key: &str, version: Version, present: Present<'_>) -> Result<Option<String>, String> {
    refuse(key, version)?;
    if let Some(name) = hugetlb(key, version) {
        return Ok(present(&name));
    }
    let Some(row) = translated(key, version).next() else { return Ok(present(key)) };
    Ok(match (&row.how, version) {
        (How::Quota | How::Period, V1) => {
            let (quota, period) = (present("cpu.cfs_quota_us"), present("cpu.cfs_period_us"));
            quota.zip(period).map(|(quota, period)| {
                let quota = if quota.trim() == "-1" { "max" } else { quota.trim() };
                format!("{quota} {}", period.trim())
            })
        }
        (How::Throttle(_), V1) => Some(io_max_of_v1(present)),
        (how, _) => present(row.names(version)[0])
            .map(|text| as_other(key, how, text.trim(), version, &memory(version, present))),
    })
}

/// Returns the content of the file with the memory limit.
fn memory(version: Version, present: Present<'_>) -> Option<String> {
    present(if version == V1 { "memory.limit_in_bytes" } else { "memory.max" })
}

/// Converts the content of a file of this interface to that of its counterpart.
fn as_other(key: &str, how: &How, text: &str, here: Version, memory: &Option<String>) -> String {
    let other = if here == V1 { V2 } else { V1 };
    let converted = |text: &str| convert(key, how, text, other, memory);
    match (how, here) {
        (How::Quota, V2) => {
            let quota = text.split(' ').next().unwrap_or_default();
            converted(quota).unwrap_or_else(|_| quota.to_owned())
        }
        (How::Period, V2) => text.split(' ').nth(1).unwrap_or_default().to_owned(),
        (How::Throttle(key), V2) => {
            let line = |line: &str| {
                let (device, rest) = line.split_once(' ')?;
                let rate = rest.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('='))?;
                (rate != "max").then(|| format!("{device} {rate}"))
            };
            text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
        }
        (How::Stat(key, factor), V2) => {
            let value =
                text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
            value.unwrap_or(0).saturating_mul(*factor).to_string()
        }
        (How::Swap, _) => converted(text).unwrap_or_else(|_| none(other).to_owned()),
        (How::BlkioWeight, V1) => {
            converted(text).map_or_else(|_| text.to_owned(), |weight| format!("default {weight}"))
        }
        (How::Freezer, V1) if text == "FREEZING" => "1".to_owned(),
        _ => converted(text).unwrap_or_else(|_| text.to_owned()),
    }
}

/// Converts a value to that of a file of the interface `to`. `memory` is the limit of memory.
fn convert(
    key: &str,
    how: &How,
    value: &str,
    to: Version,
    memory: &Option<String>,
) -> Result<String, String> {
    let of_memory = || bytes(memory.as_deref().unwrap_or_default()).unwrap_or(None);
    Ok(match (how, to) {
        // A quota that is written without a period leaves the period unchanged.
        (How::Limit | How::Quota, _) => limit(key, value, to)?,
        (How::Shares, V1) => cpu_shares(weight(key, value)?).to_string(),
        (How::Shares, V2) => {
            cpu_weight(number(key, value)?).ok_or("cpu.shares: 0 is not a share")?.to_string()
        }
        (How::BlkioWeight, V1) => {
            let default = value.lines().next().unwrap_or_default();
            blkio_weight(weight(key, default.trim_start_matches("default "))?).to_string()
        }
        (How::BlkioWeight, V2) => {
            let weight = u16::try_from(number(key, value)?).ok();
            let weight = weight.filter(|weight| (10..=1000).contains(weight)).and_then(io_weight);
            weight.ok_or("blkio.weight: from 10 to 1000")?.to_string()
        }
        (How::Swap, V1) => match (size(key, value)?, memory, of_memory()) {
            (None, ..) => none(to).to_owned(),
            (Some(swap), _, Some(memory)) => memory.saturating_add(swap).to_string(),
            (_, Some(_), None) => {
                return Err(format!(
                    "{key}: cgroup v1 limits memory and swap together, and no memory limit is \
                     set: set memory.max first"
                ));
            }
            (_, None, _) => return Err(format!("{key}: this kernel does not account for swap")),
        },
        (How::Swap, V2) => match (size(key, value)?, of_memory()) {
            (None, _) => none(to).to_owned(),
            (Some(both), Some(memory)) if both >= memory => (both - memory).to_string(),
            (Some(both), Some(memory)) => {
                return Err(format!(
                    "{key}: {both} is less than the limit of memory alone, {memory}"
                ));
            }
            (Some(_), None) => {
                return Err(format!(
                    "{key} limits memory and swap together, and no memory limit is set: \
                     set memory.limit_in_bytes first"
                ));
            }
        },
        (How::Freezer, _) => match (to, value) {
            (V1, "1") => "FROZEN".to_owned(),
            (V1, "0") => "THAWED".to_owned(),
            (V2, "FROZEN") => "1".to_owned(),
            (V2, "THAWED") => "0".to_owned(),
            (V1, _) => return Err(format!("{key}: 0 or 1, not {value:?}")),
            (V2, _) => return Err(format!("{key}: FROZEN or THAWED, not {value:?}")),
        },
        _ => value.to_owned(),
    })
}

fn io_max_of_v1(present: Present<'_>) -> String {
    let mut devices: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in translated("io.max", V1) {
        let How::Throttle(key) = &row.how else { continue };
        for line in present(&row.v1).unwrap_or_default().lines() {
            if let Some((device, rate)) = line.split_once(' ') {
                devices.entry(device.to_owned()).or_default().push(format!("{key}={rate}"));
            }
        }
    }
    let line = |(device, limits): (String, Vec<String>)| format!("{device} {}", limits.join(" "));
    devices.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the word for no limit.
fn none(version: Version) -> &'static str {
    if version == V1 { "-1" } else { "max" }
}

/// Converts a size or a quota to a plain number, or to the word for no limit.
fn limit(key: &str, value: &str, to: Version) -> Result<String, String> {
    Ok(size(key, value)?.map_or_else(|| none(to).to_owned(), |bytes| bytes.to_string()))
}

fn size(key: &str, value: &str) -> Result<Option<u64>, String> {
    bytes(value).map_err(|reason| format!("{key}: {reason}"))
}

/// Parses a cgroup v2 weight.
fn weight(key: &str, value: &str) -> Result<u64, String> {
    let weight = number(key, value)?;
    let is_one = (1..=10_000).contains(&weight);
    is_one.then_some(weight).ok_or_else(|| format!("{key}: from 1 to 10000, not {weight}"))
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    value.trim().parse().map_err(|_| format!("{key}: {value:?} is not a number"))
}

/// Splits `MAJOR:MINOR REST`.
fn device<'a>(key: &str, value: &'a str) -> Result<(&'a str, &'a str), String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = value.split_once(' ').filter(|(device, _)| {
        device.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
    });
    parts.ok_or_else(|| format!("{key}: MAJOR:MINOR and a rate, not {value:?}"))
}
