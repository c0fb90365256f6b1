//! Results as tables, JSON and CSV.

mod picture;
#[cfg(test)]
mod tests;

pub use picture::pictures;
pub(crate) use picture::{bars, chart, distribution, dots, over_width};

use crate::accounting;
use crate::base::*;
use crate::circumstances::Circumstances;
use crate::figures::dash;
use crate::process::Sample;
use crate::race::Series;
use crate::stand::Entrant;
use crate::start::Weighed;

/// An excluded entrant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Out {
    /// The entrant's name.
    pub runtime: String,
    /// The reason.
    pub reason: String,
}

/// Returns those of `entrants` that failed.
pub fn failures(entrants: &[Entrant]) -> Vec<Out> {
    let out = |entrant: &Entrant| {
        Some(Out { runtime: entrant.name.clone(), reason: entrant.failure()?.to_owned() })
    };
    entrants.iter().filter_map(out).collect()
}

/// Formats the failures, one per line.
pub fn failures_text(failures: &[Out]) -> String {
    failures.iter().map(|out| format!("{} is out: {}\n", out.runtime, out.reason)).collect()
}

/// Formats everything as JSON: the circumstances, the failures, and an experiment's results by name.
///
/// # Errors
/// Values that JSON can't represent.
pub fn json(
    record: &Circumstances,
    failures: &[Out],
    results: impl IntoIterator<Item = (&'static str, Value)>,
) -> serde_json::Result<String> {
    let mut whole = serde_json::Map::new();
    whole.insert("record".to_owned(), serde_json::to_value(record)?);
    whole.insert("failures".to_owned(), serde_json::to_value(failures)?);
    whole.extend(results.into_iter().map(|(name, value)| (name.to_owned(), value)));
    serde_json::to_string_pretty(&whole)
}

/// Converts a result to JSON.
///
/// # Errors
/// A value that JSON can't represent.
pub fn value(result: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(|error| unfit!("JSON: {error}"))
}

/// Groups items by key. Keys and items remain in order of appearance.
pub(crate) fn grouped<K: PartialEq, T>(
    items: impl IntoIterator<Item = (K, T)>,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Returns each value once, in order of appearance.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let groups = grouped(values.into_iter().map(|value| (value, ())));
    groups.into_iter().map(|(value, _)| value).collect()
}

/// The results of one step by one entrant at one pause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The timed step.
    pub step: String,
    /// The pause before each repetition, in milliseconds.
    pub pause_ms: f64,
    /// The entrant's name.
    pub runtime: String,
    /// The wall time, in microseconds.
    pub wall_us: Summary,
    /// The median CPU time, in microseconds.
    pub cpu_us: f64,
    /// The median user time, if this kernel reports it exactly.
    pub user_us: Option<f64>,
    /// The median system time, if this kernel reports it exactly.
    pub system_us: Option<f64>,
    /// The median number of page faults.
    pub faults: f64,
    /// The median number of context switches.
    pub switches: f64,
    /// The first entrant's median time ÷ this entrant's; `None` for the first entrant itself, or with too few rounds.
    pub ratio: Option<Estimate>,
    /// The time of each round, in microseconds.
    pub rounds_us: Vec<f64>,
}

/// Summarizes every series, and compares each with the series of `first` for the same step and pause.
pub fn compare(series: &[Series], first: &str) -> Vec<Row> {
    series.iter().filter_map(|of| row(of, of.peer(series, first))).collect()
}

fn row(of: &Series, base: Option<&Series>) -> Option<Row> {
    let middle =
        |figure: fn(&Sample) -> f64| median(&mut of.samples.iter().map(figure).collect::<Vec<_>>());
    let rounds_us = of.wall_us();
    let ratio = |base: &Series| bootstrap::ratio(&base.wall_us(), &rounds_us, Pairing::Paired);
    let ratio = base.filter(|base| base.runtime != of.runtime).and_then(ratio);
    Some(Row {
        step: of.step.clone(),
        pause_ms: of.pause.as_secs_f64() * 1e3,
        runtime: of.runtime.clone(),
        wall_us: Summary::of(&rounds_us)?,
        cpu_us: middle(|sample| sample.usage.cpu().as_secs_f64() * 1e6),
        user_us: of.is_split.then(|| middle(|sample| sample.usage.user.as_secs_f64() * 1e6)),
        system_us: of.is_split.then(|| middle(|sample| sample.usage.system.as_secs_f64() * 1e6)),
        faults: middle(|sample| (sample.usage.minor_faults + sample.usage.major_faults) as f64),
        switches: middle(|sample| {
            (sample.usage.voluntary_switches + sample.usage.involuntary_switches) as f64
        }),
        ratio,
        rounds_us,
    })
}

/// Formats the samples of all series, with a heading.
pub fn csv(all: &[Series]) -> String {
    let headings = "step,pause_ms,runtime,round,wall_us,cpu_us,user_us,system_us,minor_faults,major_faults,\
         voluntary_switches,involuntary_switches";
    let lines = all.iter().flat_map(|of| {
        // Empty if the kernel can't separate user and system time.
        let split = |time: Duration| of.is_split.then_some(time.as_micros());
        let pause_ms = of.pause.as_secs_f64() * 1e3;
        of.samples.iter().enumerate().map(move |(round, sample)| {
            let usage = sample.usage;
            (
                (&of.step, pause_ms, &of.runtime, round, sample.wall.as_secs_f64() * 1e6),
                (usage.cpu().as_micros(), split(usage.user), split(usage.system)),
                (usage.minor_faults, usage.major_faults),
                (usage.voluntary_switches, usage.involuntary_switches),
            )
        })
    });
    lines_of(headings, lines)
}

/// Formats lines of CSV; `headings` are separated by commas.
pub(crate) fn lines_of(headings: &str, lines: impl IntoIterator<Item = impl Serialize>) -> String {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    // Writing to memory can't fail.
    let _ = writer.write_record(headings.split(','));
    for line in lines {
        let _ = writer.serialize(line);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Formats the CPU time, page faults and context switches of every step for which they are known, if there are any.
pub fn resources(rows: &[Row]) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.cpu_us > 0.0).collect();
    let is_split = rows.first()?.user_us.is_some();
    let split = |us: Option<f64>| us.map_or_else(dash, |us| format!("{:.2}", us / 1e3));
    let table = Table::of(
        rows,
        &[
            ("median", &|row| title(&row.step, row.pause_ms)),
            ("", &|row| row.runtime.clone()),
            ("CPU ms", &|row| format!("{:.2}", row.cpu_us / 1e3)),
            ("user", &|row| split(row.user_us)),
            ("system", &|row| split(row.system_us)),
            ("page faults", &|row| format!("{:.0}", row.faults)),
            ("switches", &|row| format!("{:.0}", row.switches)),
        ],
    );
    Some(table.left(&[0, 1]).to_string() + accounting::note(is_split))
}

/// Formats the counts: a row for each step and runtime.
pub fn weights(weighed: &[Weighed]) -> String {
    let mut table =
        Table::new(&["followed", "runtime", "system calls", "instructions", "peak MiB"]);
    for of in weighed {
        let mut cells = vec![of.step.to_owned(), of.runtime.clone()];
        match of.weight {
            Some(weight) => cells.extend([
                format!("{:.0}", weight.system_calls),
                weight.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}")),
                format!("{:.2}", weight.peak_kib / 1024.0),
            ]),
            None => cells.push("can't be followed".to_owned()),
        }
        table.row(cells);
    }
    table.to_string()
}

/// Formats a difference of times in microseconds, and its interval.
pub(crate) fn difference(us: Option<Estimate>) -> [String; 2] {
    let Some(us) = us else { return ["too few rounds".to_owned(), String::new()] };
    let interval = format!("[{:.0} {:.0}]", us.low, us.high);
    match us.differs_from(0.0) {
        true => [format!("{:.0}", us.value), interval],
        false => ["nothing shown".to_owned(), interval],
    }
}

/// Formats a ratio and its interval. If the interval includes 1, a text replaces the ratio.
pub(crate) fn judged(ratio: Estimate) -> [String; 2] {
    let interval = format!("[{:.3} {:.3}]", ratio.low, ratio.high);
    if ratio.differs_from(1.0) {
        [format!("{:.3}", ratio.value), interval]
    } else {
        ["no difference shown".to_owned(), interval]
    }
}

/// Returns the title of a step at a pause.
pub(crate) fn title(step: &str, pause_ms: f64) -> String {
    if pause_ms == 0.0 {
        format!("{step}, back-to-back")
    } else {
        format!("{step}, {pause_ms} ms apart")
    }
}
