//! `ps`: the lines of the host's ps(1) that belong to a container.

use alloc::string::String;

use crate::failure::Failure;
use crate::number;

/// Keeps the title and the lines whose PID is one of `pids`.
///
/// # Errors
/// A table without a PID column, or with something else in it.
pub fn filter(table: &str, pids: &[i32]) -> Result<String, Failure> {
    let mut lines = table.lines();
    let title = lines.next().unwrap_or_default();
    let column = title
        .split_whitespace()
        .position(|name| name == "PID")
        .ok_or_else(|| Failure::new("couldn't find PID field in ps output"))?;
    let mut kept = String::from(title);
    kept.push('\n');
    for line in lines.filter(|line| !line.is_empty()) {
        let field = line.split_whitespace().nth(column).unwrap_or_default();
        let pid: i32 = number::parse(field).map_err(|reason| {
            Failure::new(format_args!("unable to parse pid: {field:?}: {reason}"))
        })?;
        if pids.contains(&pid) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_container() {
        let table = "\
UID          PID    PPID  C STIME TTY          TIME CMD
root           1       0  0 06:50 ?        00:00:01 init
root         117       1  0 06:50 ?        00:00:00 sh -c 118
root         118     117  0 06:50 ?        00:00:00 sleep 1
";
        assert_eq!(
            filter(table, &[118]).unwrap(),
            "UID          PID    PPID  C STIME TTY          TIME CMD\n\
             root         118     117  0 06:50 ?        00:00:00 sleep 1\n"
        );
        assert_eq!(filter("  PID CMD\n", &[1]).unwrap(), "  PID CMD\n");
    }

    #[test]
    fn other_output() {
        for (table, message) in [
            ("", "couldn't find PID field in ps output"),
            ("error: unsupported option\n", "couldn't find PID field in ps output"),
            ("CMD PID\nsleep 1 7\n", "unable to parse pid: \"1\""),
            ("PID CMD\n x\n", "unable to parse pid: \"x\": invalid syntax"),
        ] {
            if let Err(failure) = filter(table, &[7]) {
                assert!(failure.message.starts_with(message), "{failure}");
            }
        }
        assert!(filter("PID CMD\nx y\n", &[7]).is_err());
    }
}
