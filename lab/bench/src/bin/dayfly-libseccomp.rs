//! `dayfly-libseccomp PASSES ARCHITECTURE...`: times the lookup of names in libseccomp.
//!
//! `dayfly bench lookups` executes this program. It is a separate program, so that the other tools
//! need not link with libseccomp. Names are read from standard input, one per line. All names are
//! looked up PASSES times for each architecture, given by its name in the runtime specification.
//! The output is JSON: the library's version, the names that the library does not know, and the
//! time of all passes in nanoseconds for each architecture.

use libseccomp::{ScmpArch, ScmpSyscall, ScmpVersion};
use serde_json::json;
use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

fn main() -> ExitCode {
    let answer = match std::env::args().nth(1).as_deref() {
        Some("--version") => {
            Ok(concat!("dayfly-libseccomp version ", env!("CARGO_PKG_VERSION")).to_owned())
        }
        _ => answer().map(|answer| answer.to_string()),
    };
    match answer {
        Ok(text) => match writeln!(std::io::stdout(), "{text}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&format!("write standard output: {error}")),
        },
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

fn answer() -> Result<serde_json::Value, String> {
    let mut words = std::env::args().skip(1);
    let passes = words.next().and_then(|word| word.parse::<u32>().ok());
    let passes = passes.ok_or("the first argument is a number of passes")?;
    let archs = words
        .map(|word| ScmpArch::from_str(&word).map_err(|error| format!("{word}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    let text = std::io::read_to_string(std::io::stdin())
        .map_err(|error| format!("read names from standard input: {error}"))?;
    let is_known =
        |name: &&str| archs.iter().any(|arch| ScmpSyscall::from_name_by_arch(name, *arch).is_ok());
    let (names, unknown): (Vec<&str>, Vec<&str>) = text.lines().partition(is_known);
    let times: Vec<u64> = archs.iter().map(|arch| time(passes, &names, *arch)).collect();
    let version = ScmpVersion::current().map_err(|error| format!("libseccomp: {error}"))?;
    let version = format!("{}.{}.{}", version.major, version.minor, version.micro);
    Ok(json!({ "version": version, "unknown": unknown, "times_ns": times }))
}

/// Looks up all names `passes` times; returns the time in nanoseconds.
fn time(passes: u32, names: &[&str], arch: ScmpArch) -> u64 {
    let start = Instant::now();
    for _ in 0..passes {
        for name in names {
            let _ = black_box(ScmpSyscall::from_name_by_arch(black_box(name), arch));
        }
    }
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
