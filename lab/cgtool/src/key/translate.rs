//! Conversion of values between the cgroup v1 and v2 files.

use super::{Assign, How, Present, TABLE, bytes, hugetlb, is_size, refuse, throttle};
use crate::group::Version;
use cgroup::weight::{blkio_weight, cpu_shares, cpu_weight, io_weight};

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
    match version {
        Version::V2 => to_v2(key, value, present),
        Version::V1 => to_v1(key, value, present),
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
    let of_v1 = TABLE.iter().find(|(v1, _, _)| *v1 == key);
    let of_v2: Vec<_> = TABLE.iter().filter(|(_, v2, _)| *v2 == key).collect();
    match (version, of_v1, of_v2.as_slice()) {
        (Version::V2, Some((_, file, how)), _) => {
            let Some(text) = present(file) else { return Ok(None) };
            Ok(Some(as_v1(&text, *how, present)))
        }
        (Version::V1, None, [(_, _, How::Quota), ..]) => {
            let (quota, period) = (present("cpu.cfs_quota_us"), present("cpu.cfs_period_us"));
            let (Some(quota), Some(period)) = (quota, period) else { return Ok(None) };
            let quota = if quota.trim() == "-1" { "max" } else { quota.trim() };
            Ok(Some(format!("{quota} {}", period.trim())))
        }
        (Version::V1, None, [(_, _, How::Throttle(_)), ..]) => Ok(Some(io_max_of_v1(present))),
        (Version::V1, None, [(file, _, how), ..]) => {
            let Some(text) = present(file) else { return Ok(None) };
            Ok(Some(as_v2(&text, *how, present)))
        }
        _ => Ok(present(key)),
    }
}

fn one(file: &str, value: impl Into<String>) -> Result<Vec<Assign>, String> {
    Ok(vec![Assign { file: file.to_owned(), value: value.into() }])
}

fn to_v2(key: &str, value: &str, present: Present<'_>) -> Result<Vec<Assign>, String> {
    if let Some(name) = hugetlb(key, Version::V2) {
        return one(&name, limit(key, value, "max")?);
    }
    let Some((_, file, how)) = TABLE.iter().find(|(v1, _, _)| *v1 == key) else {
        return if is_size(key) { one(key, limit(key, value, "max")?) } else { one(key, value) };
    };
    match how {
        How::Same => one(file, value),
        How::Limit => one(file, limit(key, value, "max")?),
        How::Shares => {
            let weight = cpu_weight(number(key, value)?).ok_or("cpu.shares: 0 is not a share")?;
            one(file, weight.to_string())
        }
        How::BlkioWeight => {
            let weight =
                u16::try_from(number(key, value)?).ok().filter(|n| (10..=1000).contains(n));
            let weight = weight.and_then(io_weight);
            one(file, weight.ok_or("blkio.weight: from 10 to 1000")?.to_string())
        }
        // A quota that is written without a period leaves the period unchanged.
        How::Quota => one(file, limit(key, value, "max")?),
        How::Period => {
            let present = present(file).unwrap_or_default();
            let quota = present.split_whitespace().next().unwrap_or("max");
            one(file, format!("{quota} {}", number(key, value)?))
        }
        How::Swap => {
            let memory = present("memory.max").unwrap_or_default();
            match (size(key, value)?, bytes(&memory).unwrap_or(None)) {
                (None, _) => one(file, "max"),
                (Some(_), None) => Err(format!(
                    "{key} limits memory and swap together, and no memory limit is set: \
                     set memory.limit_in_bytes first"
                )),
                (Some(both), Some(memory)) if both < memory => {
                    Err(format!("{key}: {both} is less than the limit of memory alone, {memory}"))
                }
                (Some(both), Some(memory)) => one(file, (both - memory).to_string()),
            }
        }
        How::Throttle(name) => {
            let (device, rate) = device(key, value)?;
            let rate = if rate == "0" { "max" } else { rate };
            one(file, format!("{device} {name}={rate}"))
        }
        How::Freezer => match value {
            "FROZEN" => one(file, "1"),
            "THAWED" => one(file, "0"),
            _ => Err(format!("{key}: FROZEN or THAWED, not {value:?}")),
        },
        How::Stat(..) => Err(format!("{key} can't be set on cgroup v2")),
    }
}

fn to_v1(key: &str, value: &str, present: Present<'_>) -> Result<Vec<Assign>, String> {
    if let Some(name) = hugetlb(key, Version::V1) {
        return one(&name, limit(key, value, "-1")?);
    }
    let rows: Vec<_> =
        TABLE.iter().filter(|(_, v2, _)| *v2 == key && key != "cgroup.threads").collect();
    let Some((file, _, how)) = rows.first() else {
        return if is_size(key) { one(key, limit(key, value, "-1")?) } else { one(key, value) };
    };
    match how {
        How::Same => one(file, value),
        How::Limit => one(file, limit(key, value, "-1")?),
        How::Shares => one(file, cpu_shares(weight(key, value)?).to_string()),
        How::BlkioWeight => {
            one(file, blkio_weight(weight(key, value.trim_start_matches("default "))?).to_string())
        }
        How::Quota | How::Period => {
            let mut words = value.split_whitespace();
            let quota = limit(key, words.next().unwrap_or_default(), "-1")?;
            let mut all = one("cpu.cfs_quota_us", quota)?;
            if let Some(period) = words.next() {
                let period = number(key, period)?.to_string();
                all.insert(0, Assign { file: "cpu.cfs_period_us".to_owned(), value: period });
            }
            Ok(all)
        }
        How::Swap => match (size(key, value)?, present("memory.limit_in_bytes")) {
            (None, _) => one(file, "-1"),
            (Some(swap), Some(memory)) => match bytes(&memory)? {
                Some(memory) => one(file, memory.saturating_add(swap).to_string()),
                None => Err(format!(
                    "{key}: cgroup v1 limits memory and swap together, and no memory limit is \
                     set: set memory.max first"
                )),
            },
            (Some(_), None) => Err(format!("{key}: this kernel does not account for swap")),
        },
        How::Throttle(_) => {
            let (device, _) = device(key, value)?;
            let mut all = Vec::new();
            for word in value.split_whitespace().skip(1) {
                let (name, rate) =
                    word.split_once('=').ok_or_else(|| format!("{key}: {word:?}"))?;
                let row = rows.iter().find(|(_, _, how)| *how == How::Throttle(throttle(name)));
                let (file, _, _) =
                    row.ok_or_else(|| format!("{key}: {name:?} is not a key of io.max"))?;
                let rate = if rate == "max" { "0" } else { rate };
                all.push(Assign { file: (*file).to_owned(), value: format!("{device} {rate}") });
            }
            Ok(all)
        }
        How::Freezer => match value {
            "1" => one(file, "FROZEN"),
            "0" => one(file, "THAWED"),
            _ => Err(format!("{key}: 0 or 1, not {value:?}")),
        },
        How::Stat(..) => Err(format!("{key} can't be set")),
    }
}

/// Converts the content of a v2 file to that of its v1 counterpart.
fn as_v1(text: &str, how: How, present: Present<'_>) -> String {
    let text = text.trim();
    let minus_one = |text: &str| if text == "max" { "-1".to_owned() } else { text.to_owned() };
    match how {
        How::Limit => minus_one(text),
        How::Shares => text.parse().map_or_else(|_| text.to_owned(), |w| cpu_shares(w).to_string()),
        How::BlkioWeight => {
            let first = text.lines().next().unwrap_or_default().trim_start_matches("default ");
            first.parse().map_or_else(|_| text.to_owned(), |w| blkio_weight(w).to_string())
        }
        How::Quota => minus_one(text.split(' ').next().unwrap_or_default()),
        How::Period => text.split(' ').nth(1).unwrap_or_default().to_owned(),
        How::Swap => {
            let memory = present("memory.max").unwrap_or_default();
            match (bytes(text), bytes(&memory)) {
                (Ok(Some(swap)), Ok(Some(memory))) => (swap + memory).to_string(),
                _ => "-1".to_owned(),
            }
        }
        How::Throttle(key) => {
            let line = |line: &str| {
                let (device, rest) = line.split_once(' ')?;
                let rate = rest.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('='))?;
                (rate != "max").then(|| format!("{device} {rate}"))
            };
            text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
        }
        How::Freezer => if text == "1" { "FROZEN" } else { "THAWED" }.to_owned(),
        How::Stat(key, factor) => {
            let value =
                text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
            value.unwrap_or(0).saturating_mul(factor).to_string()
        }
        How::Same => text.to_owned(),
    }
}

/// Converts the content of a v1 file to that of its v2 counterpart.
fn as_v2(text: &str, how: How, present: Present<'_>) -> String {
    let text = text.trim();
    let or_max = |value: Result<Option<u64>, String>| match value {
        Ok(Some(bytes)) => bytes.to_string(),
        Ok(None) => "max".to_owned(),
        Err(_) => text.to_owned(),
    };
    match how {
        How::Limit => or_max(bytes(text)),
        How::Shares => {
            let weight = text.parse().ok().and_then(cpu_weight);
            weight.map_or_else(|| text.to_owned(), |weight| weight.to_string())
        }
        How::BlkioWeight => {
            let weight = text.parse().ok().and_then(io_weight);
            weight.map_or_else(|| text.to_owned(), |weight| format!("default {weight}"))
        }
        How::Swap => {
            let memory = present("memory.limit_in_bytes").unwrap_or_default();
            match (bytes(text), bytes(&memory)) {
                (Ok(Some(both)), Ok(Some(memory))) => both.saturating_sub(memory).to_string(),
                _ => "max".to_owned(),
            }
        }
        How::Freezer => if text == "THAWED" { "0" } else { "1" }.to_owned(),
        _ => text.to_owned(),
    }
}

fn io_max_of_v1(present: Present<'_>) -> String {
    let mut devices: std::collections::BTreeMap<String, Vec<String>> = Default::default();
    for (file, _, how) in TABLE {
        let How::Throttle(key) = how else { continue };
        for line in present(file).unwrap_or_default().lines() {
            if let Some((device, rate)) = line.split_once(' ') {
                devices.entry(device.to_owned()).or_default().push(format!("{key}={rate}"));
            }
        }
    }
    let line = |(device, limits): (String, Vec<String>)| format!("{device} {}", limits.join(" "));
    devices.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Converts a size or a quota to a plain number. Returns `none` if the value means no limit.
fn limit(key: &str, value: &str, none: &str) -> Result<String, String> {
    Ok(size(key, value)?.map_or_else(|| none.to_owned(), |bytes| bytes.to_string()))
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
