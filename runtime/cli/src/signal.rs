//! Signals by name and number (signal(7)).

use crate::number;

/// The names of signals, without `SIG`. The name of signal n is at index n−1.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Alternative names of signals.
const ALIASES: [(&str, i32); 4] = [("IOT", 6), ("CLD", 17), ("POLL", 29), ("UNUSED", 31)];

/// The first real-time signal for programs: the kernel's first is 32, and glibc reserves 32 and 33.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// SIGTERM, which `kill` sends by default.
pub const TERM: i32 = 15;

/// Parses a signal: a number from 0 to 64, or a name in upper or lower case, with or without `SIG`, including `RTMIN+n`
/// and `RTMAX-n`. Signal 0 only checks whether the process exists. Returns `None` if `text` is not a signal.
pub fn parse(text: &str) -> Option<i32> {
    if let Ok(number) = number::parse(text) {
        return (0..=RTMAX).contains(&number).then_some(number);
    }
    let name = match text.get(..3) {
        Some(prefix) if prefix.eq_ignore_ascii_case("SIG") => text.get(3..)?,
        _ => text,
    };
    let at = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
    if let Some(number) = at.and_then(|at| i32::try_from(at + 1).ok()) {
        return Some(number);
    }
    let alias = ALIASES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    alias.map(|(_, number)| *number).or_else(|| real_time(name))
}

fn real_time(name: &str) -> Option<i32> {
    let (base, offset) = name.split_at_checked(5)?;
    let from = match base {
        _ if base.eq_ignore_ascii_case("RTMIN") => RTMIN,
        _ if base.eq_ignore_ascii_case("RTMAX") => RTMAX,
        _ => return None,
    };
    let offset = match offset {
        "" => 0,
        _ if offset.starts_with(['+', '-']) => number::parse::<i32>(offset).ok()?,
        _ => return None,
    };
    from.checked_add(offset).filter(|number| (RTMIN..=RTMAX).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        for (number, texts) in [
            (0, "0"),
            (1, "HUP"),
            (6, "SIGIOT"),
            (9, "KILL SIGKILL sigkill kill 9 +9"),
            (TERM, "TERM"),
            (31, "SYS"),
            (34, "RTMIN"),
            (37, "SIGRTMIN+3"),
            (63, "rtmax-1"),
            (64, "64"),
        ] {
            assert!(texts.split(' ').all(|text| parse(text) == Some(number)), "{texts}");
        }
    }

    #[test]
    fn other_texts() {
        let texts = " SIG NOPE SIGNOPE KILLS 9x -9 65 RTMIN+31 RTMAX+1 RTMIN3 RTMIN+ RTMIN+2147483647 \
                     SIGSIGKILL KÏLL sïg";
        for text in texts.split(' ') {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
