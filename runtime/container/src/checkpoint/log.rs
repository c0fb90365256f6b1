//! Finds the line in criu's log that gives the reason of a failure.

use alloc::string::String;

#[cfg(test)]
mod tests;

/// The largest log that is read, in bytes.
pub(super) const LONGEST: usize = 1 << 26;

/// The word in the log with which criu reports a failed operation. The errors before this word give the reason; later
/// errors come from criu's clean-up.
const FAILED: &str = "FAILED.";
/// Parts of error lines that report only a consequence of an earlier error.
const FOLLOWING: [&str; 2] = [" failed with -1", ": Unable to open fd="];

/// Returns the path of the log if a file of options for criu names another one than `name`, or another directory of logs.
/// Without a directory, the path is relative to that of the request.
pub(super) fn named_by(config: &str, name: &str) -> Option<String> {
    let text = match config {
        "" => return None,
        config => sys::fs::read_text(config).ok()?,
    };
    log_option(&text, name)
}

fn log_option(config: &str, name: &str) -> Option<String> {
    let value = |wanted: &str| {
        let mut values = config.lines().filter_map(|line| {
            let (key, value) = line.trim().split_once([' ', '\t', '='])?;
            let value = value.split('#').next().unwrap_or_default().trim();
            (key == wanted).then(|| value.trim_matches('"'))
        });
        values.rfind(|value| !value.is_empty())
    };
    match (value("work-dir"), value("log-file")) {
        (Some(directory), log) => Some(plan::absolute(directory, log.unwrap_or(name))),
        (None, log) => log.map(String::from),
    }
}

/// Returns the last error line that gives a reason, without the time at its beginning.
pub(super) fn last_error(log: &str) -> Option<String> {
    let before = log.rfind(FAILED).and_then(|end| log.get(..end)?.rsplit_once('\n'));
    let before = before.map_or("", |(before, _)| before);
    let errors = |text| str::lines(text).rev().filter(|line| line.contains("Error ("));
    let tells = |line: &&str| !FOLLOWING.iter().any(|words| line.contains(words));
    let line = errors(before).find(tells).or_else(|| errors(log).next())?;
    let line = match line.split_once(") ") {
        Some((time, rest)) if time.starts_with('(') => rest,
        _ => line,
    };
    // The line contains names of files and processes, which may include control characters for a terminal.
    let mut text = String::new();
    for c in line.trim().chars() {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    Some(text)
}
