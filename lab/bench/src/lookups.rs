//! `lookups`: times the lookup of all system call names in the engines' default seccomp profile.
//!
//! Before version 2.5, libseccomp compared names one after the other; since then, libseccomp has used a perfect hash.
//! The author of that change timed a thousand passes through the table, as this experiment does. dayfly uses a hash as
//! well (`runtime/seccomp/src/names.rs`). A separate program calls libseccomp, so that this program does not depend on
//! the library.

use crate::harness::*;
use crate::results::Out;
use seccomp::Arch;
use spec::defaults::CAPABILITIES;
use std::hint::black_box;
use std::io::Write as _;

/// `lookups`.
#[derive(Debug, Args)]
pub struct Lookups {
    /// Number of lookups of all names per round
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "10")]
    pub rounds: usize,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
}

/// The name of the program that calls libseccomp; it is in this program's directory.
const PROGRAM: &str = "dayfly-libseccomp";
/// The name of dayfly's lookup in reports.
const OURS: &str = "dayfly";
const THEIRS: &str = "libseccomp";
const LINEAR: &str = "one name after the other";

/// The timeout of a round with libseccomp.
const DEADLINE: Duration = Duration::from_secs(120);

/// The output of [`PROGRAM`].
#[derive(Debug, Default, Deserialize)]
struct Answer {
    version: String,
    unknown: Vec<String>,
    times_ns: Vec<f64>,
}

/// Executes the command.
///
/// # Errors
/// A file that can't be written; an interrupt.
pub fn command(options: &Lookups) -> Result<(), Error> {
    let record = Circumstances::of_host("none");
    options.forms.check_directories()?;
    let profile = spec::defaults::seccomp::own(CAPABILITIES);
    let archs = architectures(&profile);
    let mut names = names(&profile);
    let all = names.len();
    let first = ask(&names, &archs, 0);
    let mut ways = vec![OURS.to_owned(), LINEAR.to_owned()];
    if let Ok(answer) = &first {
        names.retain(|name| !answer.unknown.contains(name));
        ways.insert(1, format!("{THEIRS} {}", answer.version));
    }
    // The time of all passes, for each round, in seconds.
    let times = |by| archs.iter().map(move |arch| (by, arch, Vec::<f64>::new()));
    let mut rows: Vec<_> = ways.iter().flat_map(times).collect();
    let tables: Vec<Vec<&str>> = archs.iter().map(|arch| table(*arch)).collect();
    let mut progress = Progress::new();
    for round in 0..options.rounds {
        progress.tell("lookups, rounds", round, options.rounds);
        interrupt::check()?;
        let mut times = Vec::with_capacity(rows.len());
        times.extend(archs.iter().map(|arch| ours(&names, *arch, options.count)));
        if first.is_ok() {
            let answer = ask(&names, &archs, options.count).map_err(Error::Unfit)?;
            times.extend(answer.times_ns.iter().map(|ns| ns / 1e9));
        }
        times.extend(tables.iter().map(|table| linear(&names, table, options.count)));
        rows.iter_mut().zip(times).for_each(|((.., wall_s), time)| wall_s.push(time));
    }
    drop(progress);
    let out = first.err().map(|reason| Out { runtime: THEIRS.to_owned(), reason });

    let mut figures = Figures::default();
    let (known, passes) = (names.len(), options.count);
    for (by, arch, wall_s) in &rows {
        let each_ns = wall_s.iter().map(|s| s * 1e9 / (known as f64 * f64::from(passes)));
        figures.rounds(format!("{}, a name", arch.name()), "ns", by, each_ns);
        let name = format!("{}, all names and passes", arch.name());
        figures.rounds(name, "s", by, wall_s.iter().copied());
    }
    let row = |(by, arch, wall_s): &(&String, &Arch, Vec<f64>)| {
        let native = if **arch == Arch::NATIVE { "yes" } else { "no" };
        json!({
            "by": by, "arch": arch.name(), "native": native, "names": known, "passes": passes,
            "wall_s": wall_s,
        })
    };
    let mut outcome = figures.outcome(OURS);
    let newer = match all - known {
        0 => String::new(),
        newer => format!("; {newer} more are newer than this libseccomp"),
    };
    let rounds = counted(options.rounds, "round");
    let about = format!("{known} names of the engines' profile × {passes}, {rounds}{newer}\n");
    outcome.text.insert_str(0, &about);
    let outcome = outcome.with("rows", &rows.iter().map(row).collect::<Vec<_>>())?;
    session::tell(&options.forms, &record, out.as_slice(), 0, outcome)
}

/// Returns the names of a profile, each once.
fn names(profile: &Value) -> Vec<String> {
    let rules = profile["syscalls"].as_array().into_iter().flatten();
    let names = rules.flat_map(|rule| rule["names"].as_array().into_iter().flatten());
    let names: BTreeSet<&str> = names.filter_map(Value::as_str).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn architectures(profile: &Value) -> Vec<Arch> {
    let names = profile["architectures"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).filter_map(Arch::from_name).collect()
}

/// Returns a table of all system call names of an architecture, sorted.
fn table(arch: Arch) -> Vec<&'static str> {
    const LAST: u32 = 1024;
    const X32_BIT: u32 = 0x4000_0000;
    let numbers = (0..LAST).chain(X32_BIT..X32_BIT + LAST);
    let names: BTreeSet<&str> = numbers.flat_map(|number| seccomp::names(number, arch)).collect();
    names.into_iter().collect()
}

/// Looks all names up repeatedly in dayfly's table; returns the time in seconds.
fn ours(names: &[String], arch: Arch, passes: u32) -> f64 {
    timed(names, passes, |name| seccomp::number(name, arch))
}

/// Looks all names up repeatedly by comparing them with one name of a table after the other; returns the time in
/// seconds.
fn linear(names: &[String], table: &[&str], passes: u32) -> f64 {
    timed(names, passes, |name| table.iter().position(|known| *known == name))
}

fn timed<T>(names: &[String], passes: u32, find: impl Fn(&str) -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..passes {
        for name in names {
            black_box(find(black_box(name)));
        }
    }
    start.elapsed().as_secs_f64()
}

/// Makes libseccomp look the names up repeatedly, for each architecture.
fn ask(names: &[String], archs: &[Arch], passes: u32) -> Result<Answer, String> {
    let own = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let program = own.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(format!(
            "{PROGRAM} is not beside {}: \"make build-tools\" builds it if libseccomp's headers are installed",
            own.display()
        ));
    }
    let failed = |what: &dyn std::fmt::Display| format!("{PROGRAM}: {what}");
    let (reads, mut writes) = std::io::pipe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.arg(passes.to_string()).args(archs.iter().map(|arch| arch.name())).stdin(reads);
    // The names fit into a pipe.
    writeln!(writes, "{}", names.join("\n")).map_err(|error| failed(&error))?;
    drop(writes);
    let text = process::read(&mut command, DEADLINE).map_err(|failure| failed(&failure))?;
    serde_json::from_str(&text).map_err(|_| failed(&"it failed, and says why above"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_all_names_of_an_architecture() {
        for arch in [Arch::NATIVE, Arch::X32] {
            let table = table(arch);
            assert!(table.contains(&"execve") && table.len() > 250, "{arch:?} {}", table.len());
            assert!(table.iter().all(|name| seccomp::number(name, arch).is_some()));
        }
    }
}
