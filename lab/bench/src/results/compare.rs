//! Summarizes series, and compares them with the first entrant's.

use crate::process::Sample;
use crate::race::Series;
use measure::bootstrap::{self, Estimate, Pairing};
use measure::statistics::{Summary, median};
use serde::Serialize;

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
    series.iter().filter_map(|of| row(of, base(series, of, first))).collect()
}

fn base<'a>(series: &'a [Series], of: &Series, first: &str) -> Option<&'a Series> {
    let same = |other: &&Series| (&other.step, other.pause) == (&of.step, of.pause);
    series.iter().filter(same).find(|other| other.runtime == first && of.runtime != first)
}

fn row(of: &Series, base: Option<&Series>) -> Option<Row> {
    let middle =
        |figure: fn(&Sample) -> f64| median(&mut of.samples.iter().map(figure).collect::<Vec<_>>());
    let rounds_us = of.wall_us();
    let ratio =
        base.and_then(|base| bootstrap::ratio(&base.wall_us(), &rounds_us, Pairing::Paired));
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
