//! `groups`: shows what control groups do for applications that share a host, using `dayfly cgroup`.
//!
//! The uses are those of Red Hat's case study with a database, applied to instances of a synthetic workload ([`work`]):
//! consolidation, pinning to memory nodes, a growing number of CPUs, CPUs exchanged under load, a memory limit on one
//! instance, and a rogue instance.

mod ground;
mod instance;
mod tell;
mod uses;
pub mod work;

use crate::circumstances;
use crate::harness::*;
use crate::place::is_in_memory;
use ground::Ground;
use report::size;
use uses::Site;

/// `groups`.
#[derive(Debug, Args)]
pub struct Groups {
    /// The uses of groups
    #[arg(
        long = "use",
        value_enum,
        value_delimiter = ',',
        default_value = "consolidation,pinning,scaling,swap,isolation,rogue"
    )]
    pub uses: Vec<Use>,
    /// Duration of each state
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub phase: Duration,
    /// Number of threads of an instance, each of which performs one transaction at a time
    #[arg(long, value_name = "N", value_parser = some, default_value = "4")]
    pub threads: usize,
    /// Memory of an instance
    #[arg(long, value_name = "SIZE", value_parser = size::mebibytes, default_value = "256m")]
    pub memory: usize,
}

/// A use of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Four instances, unrestricted, and with CPU shares of 2 : 4 : 8 : 14
    Consolidation,
    /// One instance on all CPUs; then one instance per memory node at the same time, unpinned and
    /// pinned to its node
    Pinning,
    /// One instance with a growing number of CPUs
    Scaling,
    /// Two instances with different CPUs, exchanged while they work
    Swap,
    /// One instance limited to a part of the memory that it uses, beside others
    Isolation,
    /// An instance beside a rogue instance that uses all available memory and CPU time, first
    /// without and then with a limit on the rogue
    Rogue,
}

/// The results of one instance in one state.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(rename = "use")]
    of: Use,
    state: String,
    instance: String,
    /// Transactions per second, for each tenth of a second.
    rates: Vec<f64>,
    /// The 99th percentile of transaction times, in µs; `None` if there were no transactions.
    p99_us: Option<f64>,
    /// Transactions per second of CPU time.
    per_cpu_s: Option<f64>,
}

impl Row {
    /// Returns the mean rate. The median would be misleading, because a group with a CPU quota works in bursts.
    fn rate(&self) -> f64 {
        self.rates.iter().fold(0.0, |sum, rate| sum + rate) / self.rates.len().max(1) as f64
    }
}

/// The effect of a state on an instance.
#[derive(Debug, Serialize)]
struct Change {
    #[serde(rename = "use")]
    of: Use,
    instance: String,
    /// The change in transactions relative to the state before, in per cent.
    percent: f64,
    /// The change in transactions per second of CPU time: what is left if shares of CPU time alone have no effect.
    percent_per_cpu: Option<f64>,
}

/// The values of a figure over time.
#[derive(Debug, Serialize)]
struct Curve {
    #[serde(rename = "use")]
    of: Use,
    name: String,
    unit: &'static str,
    /// Pairs of the time in seconds and the figure.
    points: Vec<(f64, f64)>,
}

/// All results.
#[derive(Debug, Default, Serialize)]
struct Shown {
    rows: Vec<Row>,
    changes: Vec<Change>,
    curves: Vec<Curve>,
    /// The times at which changes begin and end, in seconds, with these words.
    marks: Vec<(Use, f64, &'static str)>,
    notes: Vec<String>,
}

impl Shown {
    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Compares two states, by instance and in total.
    fn changes(&mut self, of: Use, from: &str, to: &str) {
        let rows = |state: &str| {
            let rows = self.rows.iter().filter(|row| row.of == of && row.state == state);
            rows.map(|row| (row.instance.clone(), row.rate(), row.per_cpu_s)).collect::<Vec<_>>()
        };
        let (before, after) = (rows(from), rows(to));
        let sum = |rows: &[(String, f64, Option<f64>)]| rows.iter().map(|row| row.1).sum::<f64>();
        let percent = |from: f64, to: f64| (to / from - 1.0) * 100.0;
        let both = before.iter().zip(&after).map(|((name, from, each), (_, to, later))| {
            let per_cpu = each.zip(*later).map(|(each, later)| percent(each, later));
            (name.clone(), *from, *to, per_cpu)
        });
        let sums = ("all".to_owned(), sum(&before), sum(&after), None);
        let changes = both.chain([sums]).filter(|(_, from, ..)| *from > 0.0);
        let changes: Vec<Change> = changes
            .map(|(instance, from, to, percent_per_cpu)| Change {
                of,
                instance,
                percent: percent(from, to),
                percent_per_cpu,
            })
            .collect();
        self.changes.extend(changes);
    }
}

impl Experiment for Groups {
    /// Leaves the view in which this program was started if the view has no controllers, and no view is requested.
    fn prepare(&mut self, common: &mut Common) -> Result<(), Error> {
        match common.view {
            None if !can_limit("cpu") => View::leave(),
            _ => Ok(()),
        }
    }

    fn entrants(&self, _: &Common) -> Result<Vec<Entrant>, Error> {
        Ok(Vec::new())
    }

    fn measure(&self, stand: &Stand, _: &[Entrant]) -> Result<Outcome, Error> {
        let ground = Ground::make(stand)?;
        let has_swap = uses::memory_mib("SwapFree:") >= self.memory as f64;
        let on_disk = !is_in_memory(&stand.directory);
        let site = Site {
            ground: &ground,
            options: self,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            nodes: circumstances::nodes(),
            has_swap,
        };
        let mut shown = Shown::default();
        let mut progress = Progress::new();
        for (at, &of) in self.uses.iter().enumerate() {
            progress.tell(&format!("groups, {}", of.name()), at, self.uses.len());
            if of == Use::Isolation && !has_swap && !on_disk {
                shown.note(
                    "isolation: there is neither swap nor a disk for temporary files (TMPDIR)",
                );
                continue;
            }
            site.show(of, &mut shown)?;
        }
        drop(progress);
        let outcome = Outcome {
            text: tell::text(self, &shown),
            csv: tell::csv(&shown),
            pictures: tell::pictures(self, &shown),
            ..Outcome::default()
        };
        let outcome = outcome.with("rows", &shown.rows)?.with("changes", &shown.changes)?;
        outcome.with("curves", &shown.curves)?.with("notes", &shown.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_compared() {
        let row = |state: &str, instance: &str, rate: f64| Row {
            of: Use::Pinning,
            state: state.to_owned(),
            instance: instance.to_owned(),
            rates: vec![rate; 3],
            p99_us: Some(1.0),
            per_cpu_s: Some(rate * 2.0),
        };
        let mut shown = Shown::default();
        shown.rows.extend([row("free", "a", 100.0), row("free", "b", 0.0)]);
        shown.rows.extend([row("pinned", "a", 125.0), row("pinned", "b", 75.0)]);
        shown.changes(Use::Pinning, "free", "pinned");
        let changes: Vec<_> =
            shown.changes.iter().map(|change| (change.instance.as_str(), change.percent)).collect();
        // A change from zero has no percentage.
        assert_eq!(changes, [("a", 25.0), ("all", 100.0)]);
    }
}
