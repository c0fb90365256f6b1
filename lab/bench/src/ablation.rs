//! `ablation`: measures how much time each fast path saves on this host, or each of the three levers of optimization:
//! parallelism, caching and elimination.
//!
//! The environment variable [`plan::WITHOUT`] names the fast paths that dayfly omits. It exists for this experiment
//! only.

use crate::harness::*;
use crate::race::races;
use crate::steps::{self, Cost};
use plan::FastPaths;

/// `ablation`.
#[derive(Debug, Args)]
pub struct Ablation {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
    /// Fast paths to omit, one after the other [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Omit fast paths by lever: parallelism, caching, elimination of unneeded work
    #[arg(long, conflicts_with = "without")]
    pub levers: bool,
    /// The timed operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run")]
    pub operation: Vec<Operation>,
}

/// The fast paths, grouped by the three levers of Hall and Ramachandran, "Opportunities for Optimizing the Container
/// Runtime", section VI.
const LEVERS: [(&str, &str); 3] = [
    ("parallelism", "parallel-network,one-way-handshake,early-scope"),
    ("caching", "blank-namespace,seccomp-cache,device-cache,kept-program"),
    ("elimination", "clone-into-cgroup,thread-move,shared-memory,shared-masks"),
];

/// The name of the entrant with all fast paths.
const BASELINE: &str = "everything";
/// The name of the entrant that omits, all at once, the fast paths that other entrants omit one by one.
const ALL: &str = "all of these";

impl Experiment for Ablation {
    /// Returns the entrants. The first one is dayfly with all fast paths. For each fast path or lever that the options
    /// selects (by default each fast path), one entrant is dayfly without it. If the options selects several, the last
    /// entrant is dayfly without any of them.
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let dayfly = Entrant::new(own(common)?);
        let entrant = |name: &str, without: &str| Entrant {
            environment: vec![(plan::WITHOUT.to_owned(), without.to_owned())],
            ..dayfly.called(name)
        };
        let one = |name: &str| (name.to_owned(), name.to_owned());
        let left_out: Vec<(String, String)> = match (self.levers, &self.without[..]) {
            (true, _) => LEVERS.map(|(lever, paths)| (lever.to_owned(), paths.to_owned())).into(),
            (false, []) => FastPaths::NAMES.iter().map(|(name, _)| one(name)).collect(),
            (false, without) => without.iter().map(|name| one(name)).collect(),
        };
        let mut entrants = vec![dayfly.called(BASELINE)];
        entrants.extend(left_out.iter().map(|(name, without)| entrant(name, without)));
        if left_out.len() > 1 {
            let all: Vec<&str> = left_out.iter().map(|(_, without)| without.as_str()).collect();
            entrants.push(entrant(ALL, &all.join(",")));
        }
        Ok(entrants)
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let series = races(stand, entrants, &self.operation, &self.timing)?;
        let costs = steps::of_entrants(&series, BASELINE);
        let table = steps::table(&costs, "it is worth µs", "without it ÷ with it");
        let mut outcome = Outcome::of_series(&series, BASELINE, &[table])?;
        outcome.pictures = [picture(&costs)].into_iter().chain(before_and_after(&series)).collect();
        outcome.with("costs", &costs)
    }
}

/// Draws two distributions of the first step's times: with all fast paths, and without any of the omitted ones. Returns
/// `None` if only one fast path or lever was omitted.
fn before_and_after(series: &[Series]) -> Option<Picture> {
    let first = series.first()?;
    let of = |name: &str| first.peer(series, name).map(Series::wall_us);
    let (with, without) = (of(BASELINE)?, of(ALL)?);
    let title = results::title(&first.step, first.pause.as_secs_f64() * 1e3);
    let both = [("without them", without.as_slice()), ("with all of them", with.as_slice())];
    Some(results::distribution(&format!("{title}, without and with fast paths"), both.into_iter()))
}

/// Draws a bar for each fast path: how much longer a start takes without that fast path.
fn picture(costs: &[Cost]) -> Picture {
    let worth = |of: &Cost| Some((of.runtime.clone(), of.title(), (of.ratio?.value - 1.0) * 100.0));
    let worth = costs.iter().filter_map(worth);
    results::bars("Additional time of a start without it", "% more time", worth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_before_and_after_are_drawn() {
        let series = |name, us| Series::uniform("run", name, us);
        let mut all = vec![series(BASELINE, 2000), series("caching", 3000)];
        assert!(before_and_after(&all).is_none(), "one thing is left out");
        all.push(series(ALL, 9000));
        let Some(Picture::Chart(chart)) = before_and_after(&all) else { panic!("no chart") };
        let largest = |at: usize| chart.series[at].points.last().map(|point| point.0);
        assert_eq!((chart.series.len(), chart.series[0].name.as_str()), (2, "without them"));
        assert!(largest(0) > largest(1), "{chart:?}");
    }

    #[test]
    fn every_fast_path_pulls_one_lever() {
        let mut pulled: Vec<&str> = LEVERS.iter().flat_map(|(_, paths)| paths.split(',')).collect();
        let mut known: Vec<&str> = FastPaths::NAMES.iter().map(|(name, _)| *name).collect();
        pulled.sort_unstable();
        known.sort_unstable();
        assert_eq!(pulled, known);
    }
}
