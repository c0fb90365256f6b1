//! Finds the line in criu's log that gives the reason of a failure.

use alloc::string::String;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_named_by_options() {
        let of = |text| log_option(text, "dump.log");
        assert_eq!(of("log-file own.log"), Some("own.log".into()));
        assert_eq!(
            of("# log-file no\ntcp-close\n  log-file\t/v/own.log # why\n"),
            Some("/v/own.log".into())
        );
        assert_eq!(of("work-dir=\"/w\"\nlog-file=a\nlog-file b"), Some("/w/b".into()));
        assert_eq!(of("work-dir /w"), Some("/w/dump.log".into()));
        assert_eq!(of("log-file\nshell-job"), None);
    }

    #[test]
    fn the_last_that_says_something() {
        let log = "(00.05) Error (criu/util.c:1534): rlimit: no\n(00.06) Warn  (a): b\n\
                   (00.07) Error (criu/tty.c:1861): tty: Found dangling tty with sid 1 (pts)\n\
                   (00.07) Error (criu/cr-dump.c:1584): Dump core (pid: 28) failed with -1\n\
                   (00.08) 1: Error (criu/cr-dump.c:2128): Dumping FAILED.\n\
                   (00.09) Error (criu/cgroup.c:2055): cg: cgroupd: recv req error: No such file\n";
        assert_eq!(
            last_error(log).as_deref(),
            Some("Error (criu/tty.c:1861): tty: Found dangling tty with sid 1 (pts)")
        );
        assert_eq!(
            last_error("(00.1) Error (x:1): Dumping FAILED.").as_deref(),
            Some("Error (x:1): Dumping FAILED.")
        );
        assert_eq!(last_error("(00.1) all is well\n"), None);
    }
}
