//! Compares the content of a file with a value to be written, which the kernel may print in another form.

use topology::List;

/// The kernel's range of cpu.shares.
const SHARES: std::ops::RangeInclusive<u64> = 2..=1 << 18;

/// Returns whether a file contains the value to be written. The kernel may round sizes to pages, print lists in another
/// form or numbers in another base, and add lines.
pub fn is_same(file: &str, wanted: &str, present: &str) -> bool {
    let (wanted, present) = (wanted.trim(), present.trim());
    if wanted == present {
        return true;
    }
    match file {
        "cpuset.cpus" | "cpuset.mems" => are_same(List::parse, wanted, present),
        "cpu.shares" => {
            let shares = |text: &str| Some(number(text)?.clamp(*SHARES.start(), *SHARES.end()));
            are_same(shares, wanted, present)
        }
        // A quota that is written without a period leaves the period unchanged.
        "cpu.max" => {
            let mut words = present.split_whitespace();
            wanted.split_whitespace().all(|word| words.next() == Some(word))
        }
        // Any negative number means no quota.
        "cpu.cfs_quota_us" => wanted.starts_with('-') && present.starts_with('-'),
        "cpu.uclamp.min" | "cpu.uclamp.max" => {
            are_same(|text| text.parse::<f64>().ok(), wanted, present)
        }
        "memory.oom_control" => {
            let disabled = present.lines().find_map(|line| line.strip_prefix("oom_kill_disable "));
            disabled == Some(wanted)
        }
        _ if is_size(file) => are_same(|text| pages(file, text).ok(), wanted, present),
        _ => are_same(number, wanted, present) || has_line(file, wanted, present),
    }
}

/// Returns whether two texts can be read, and mean the same.
fn are_same<T: PartialEq>(read: impl Fn(&str) -> Option<T>, one: &str, other: &str) -> bool {
    read(one).is_some_and(|one| read(other) == Some(one))
}

/// Returns whether `present`, the content of the file named `file`, has the wanted setting on one of its lines: the
/// line of a device or resource, or the line `default` of io.weight.
fn has_line(file: &str, wanted: &str, present: &str) -> bool {
    // io.weight contains "default 100" if only the default is set.
    if present.strip_prefix("default ").is_some_and(|rest| rest.lines().next() == Some(wanted)) {
        return true;
    }
    let by_name = matches!(file, "net_prio.ifpriomap" | "rdma.max" | "misc.max" | "io.weight");
    let Some((name, wanted)) =
        wanted.split_once(' ').filter(|(name, _)| by_name || name.contains(':'))
    else {
        return false;
    };
    match present.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')) {
        Some(line) => wanted.split(' ').all(|word| line.split(' ').any(|other| other == word)),
        // A limit that was removed has no line.
        None => {
            let is_none = |word: &str| word == "max" || word.ends_with("=max");
            wanted == "0" || wanted.split(' ').all(is_none)
        }
    }
}

/// Parses a number as the kernel does: 0x means hexadecimal, and a leading 0 octal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// Returns a size in pages (huge pages for hugetlb files), or `None` for no limit.
fn pages(file: &str, text: &str) -> Result<Option<u64>, String> {
    let page = file.strip_prefix("hugetlb.").and_then(|rest| rest.split('.').next());
    let page = page.and_then(|size| bytes(size).ok().flatten()).unwrap_or(4096).max(4096);
    // v1 prints "no limit" as the largest possible number of pages.
    let most = i64::MAX as u64 / page;
    Ok(bytes(text)?.map(|bytes| bytes / page).filter(|pages| *pages < most))
}

/// Returns whether a file holds a size that the kernel rounds to pages.
pub fn is_size(file: &str) -> bool {
    let memory = ["max", "low", "high", "min", "limit_in_bytes"];
    let last = file.rsplit('.').next().unwrap_or(file);
    let is_limit = memory.contains(&last) || last.ends_with("limit_in_bytes");
    (file.starts_with("memory.") || file.starts_with("hugetlb.")) && is_limit
}

/// Parses a size in bytes, with K, M, G or T for powers of 1024; returns `None` for `max`, for −1, and for the number
/// that v1 prints if there is no limit.
///
/// # Errors
/// The reason why the text is invalid.
pub fn bytes(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if matches!(text, "max" | "-1") {
        return Ok(None);
    }
    let wrong =
        || format!("{text:?} is not a size: use a number of bytes, or a number with K, M, G or T");
    let bytes = report::size::bytes(text).map_err(|_| wrong())?;
    // v1 prints "no limit" as the largest number of pages that a 64-bit counter can hold.
    Ok((bytes < 0x7fff_ffff_ffff_f000).then_some(bytes))
}
