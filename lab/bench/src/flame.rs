//! `flame`: shows where CPUs spend their time in a burst, including the kernel's functions.
//!
//! perf(1) samples the stacks of all processes of a burst. The results for each runtime are a flame graph, the share of
//! each subject (mounts, cgroups, seccomp …), and the share of time in which CPUs wait for locks.

mod perf;
mod stacks;

use crate::burst::{self, Load};
use crate::harness::*;
use crate::layers::{self, Mode};
use host::measure::chart;
use perf::Perf;
use stacks::{Stacks, classes, subject, subjects, waits};

/// `flame`.
#[derive(Debug, Args)]
pub struct Flame {
    /// Containers in flight
    #[arg(long, value_name = "N", value_parser = some, default_value = "16")]
    pub width: usize,
    /// Number of containers of each runtime
    #[arg(long, value_name = "N", value_parser = some, default_value = "240")]
    pub count: usize,
    /// Samples per second of each CPU
    #[arg(long, value_name = "HERTZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
    /// Run only dayfly, with containers of this many layers, in each of the modes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub layers: usize,
    /// Ways to assemble their root filesystems
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "per-layer,fd",
        requires = "layers"
    )]
    pub modes: Vec<Mode>,
}

/// The results of one entrant's burst.
#[derive(Debug, Serialize)]
struct Row {
    runtime: String,
    samples: u64,
    /// The share of each subject, in per cent.
    subjects: BTreeMap<&'static str, f64>,
    /// The share of samples in which a CPU waited for a lock that another CPU held, in per cent.
    locks: f64,
    #[serde(skip)]
    stacks: Stacks,
}

impl Experiment for Flame {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let racers = match self.layers {
            0 => entrants.to_vec(),
            count => layers::racers(stand, entrants, count, &self.modes)?,
        };
        burst::warm_up(stand, &racers, &[])?;
        let mut failures = String::new();
        let once = Rounds { timed: 1, ..Rounds::default() };
        let rows = in_turns(&racers, once, "flame", |at| {
            let perf = Perf::ready(&stand.directory, self.frequency)?;
            let mut load = Load::default();
            burst::burst(stand, &racers[at], self.width, self.count, &mut load)?;
            let stacks = stacks::fold(&perf.seen()?, &["dayfly-bench", "perf", "perf-exec"]);
            failures += &load.failures(&racers[at].name);
            match stacks.is_empty() {
                true => Err(Error::Out("perf has seen nothing".to_owned())),
                false => Ok(row(&racers[at].name, stacks)),
            }
        })?;
        let rows: Vec<Row> = rows.into_iter().flatten().collect();
        for (entrant, racer) in entrants.iter().zip(&racers) {
            if let Some(reason) = racer.failure() {
                entrant.leave(reason);
            }
        }
        Ok(Outcome {
            text: text(self, &rows) + &failures,
            json: vec![("rows", results::value(&rows)?)],
            csv: csv(&rows),
            pictures: rows.iter().map(|row| picture(self, row)).collect(),
            ..Outcome::default()
        })
    }
}

fn row(name: &str, stacks: Stacks) -> Row {
    let samples: u64 = stacks.iter().map(|(_, samples)| samples).sum();
    let share = |of: u64| of as f64 / samples as f64 * 100.0;
    let sum = |fits: &dyn Fn(&[String]) -> bool| {
        share(stacks.iter().filter(|(stack, _)| fits(stack)).map(|(_, samples)| samples).sum())
    };
    let subjects = subjects().map(|name| (name, sum(&|stack| subject(stack) == name))).collect();
    Row { runtime: name.to_owned(), samples, subjects, locks: sum(&waits), stacks }
}

fn text(options: &Flame, rows: &[Row]) -> String {
    let headings: Vec<&str> =
        [""].into_iter().chain(subjects()).chain(["waiting for locks", "samples"]).collect();
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = vec![row.runtime.clone()];
        cells.extend(subjects().map(|name| format!("{:.1}", row.subjects[name])));
        cells.extend([format!("{:.1}", row.locks), row.samples.to_string()]);
        table.row(cells);
    }
    let Flame { count, width, .. } = options;
    let containers = counted(*count, "container");
    format!("% of the CPU time of {containers}, {width} in flight\n{table}\n")
}

/// Formats a line for each stack. The functions of the stack are joined by semicolons, as flame graph tools expect
/// them.
fn csv(rows: &[Row]) -> String {
    let lines = rows.iter().flat_map(|row| {
        row.stacks.iter().map(|(stack, samples)| (&row.runtime, stack.join(";"), samples))
    });
    results::lines_of("runtime,stack,samples", lines)
}

fn picture(options: &Flame, row: &Row) -> Picture {
    let class = |(name, parts): (&str, &str)| {
        (name.to_owned(), parts.split(' ').map(str::to_owned).collect())
    };
    Picture::Flame(chart::Flame {
        title: format!(
            "{}: {}, {} in flight",
            row.runtime,
            counted(options.count, "container"),
            options.width
        ),
        stacks: row.stacks.clone(),
        classes: classes().map(class).collect(),
    })
}
