//! `unshare`: measures a process that makes a thousand IPC namespaces in a row.
//!
//! Since Linux 5.9 a work queue frees such namespaces; before that, freeing each namespace waited for the end of an RCU
//! grace period. The author of that change showed its effect by timing a program that does nothing else.

use crate::harness::*;
use crate::process::Sample;
use sys::clone::CloneFlags;

/// `unshare`.
#[derive(Debug, Args)]
pub struct Unshare {
    /// Number of namespaces per round
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub count: u32,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "10")]
    pub rounds: usize,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
}

/// The hidden command that makes the namespaces.
pub const MAKE: &str = "make-ipc-namespaces";

/// The timeout of a round: before Linux 5.9 a namespace took 8 ms.
const DEADLINE: Duration = Duration::from_secs(120);

/// Makes `count` IPC namespaces, one after the other.
///
/// # Errors
/// Those of unshare(2).
pub fn make(count: u32) -> Result<(), Error> {
    for _ in 0..count {
        sys::ns::unshare(CloneFlags::NEWIPC)
            .map_err(Error::errno("unshare IPC of", Path::new("this process")))?;
    }
    Ok(())
}

/// Executes the command.
///
/// # Errors
/// Whatever prevents the program from making namespaces; an interrupt.
pub fn command(options: &Unshare) -> Result<(), Error> {
    let record = Circumstances::of_host("none");
    let what = format!("unshare(CLONE_NEWIPC) × {}", options.count);
    let rounds = Rounds { timed: options.rounds, ..Rounds::default() };
    let by = [Entrant::named(&what)];
    let samples = in_turns(&by, rounds, "unshare, rounds", |_| once(options.count))?.concat();
    let seconds = |of: fn(&Sample) -> Duration| -> Vec<f64> {
        samples.iter().map(|sample| of(sample).as_secs_f64()).collect()
    };
    let (wall_s, cpu_s) = (seconds(|it| it.wall), seconds(|it| it.usage.cpu()));
    let us = |times: &[f64]| times.iter().map(|s| s * 1e6).collect::<Vec<_>>();
    let both = [("until it is gone", us(&wall_s)), ("CPU time", us(&cpu_s))];
    let mut figures = Figures::default();
    for (name, us) in &both {
        figures.rounds(*name, "ms", &what, us.iter().map(|us| us / 1e3));
    }
    let mut outcome = figures.outcome(&what);
    let samples = both.iter().map(|(name, us)| (*name, us.as_slice()));
    outcome.pictures = vec![results::dots(&format!("{what}, round by round"), samples)];
    let row = json!({ "kind": "ipc", "count": options.count, "wall_s": wall_s, "cpu_s": cpu_s });
    let outcome = outcome.with("rows", &[row])?;
    session::tell(&options.forms, &record, &[], 0, outcome)
}

/// Runs a program that only makes the namespaces.
fn once(count: u32) -> Result<Sample, Error> {
    let mut program = process::quiet("/proc/self/exe");
    program.args([MAKE, &count.to_string()]).stderr(Stdio::inherit());
    process::run(&mut program, DEADLINE)
        .map_err(|failure| unfit!("{count} IPC namespaces: {failure}"))
}
