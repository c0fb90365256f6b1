//! Figures of several entrants, with names and units: their statistics, tables, CSV and pictures.

use crate::base::*;
use crate::outcome::Outcome;
use crate::results::{bars, distinct, judged, lines_of};
use crate::stand::Entrant;

/// The results of one measurement: names, units and values.
pub(crate) type Sample = Vec<(String, &'static str, f64)>;

/// One figure of one entrant.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figure {
    /// The name of the figure.
    pub(crate) name: String,
    /// The unit of the figure.
    pub(crate) unit: &'static str,
    /// The entrant.
    pub(crate) entrant: String,
    /// The summary.
    pub(crate) summary: Option<Summary>,
    /// The median and its interval.
    pub(crate) median: Option<Estimate>,
    /// The 99th percentile and its interval.
    pub(crate) p99: Option<Estimate>,
    /// The first entrant's median ÷ this entrant's median.
    pub(crate) ratio: Option<Estimate>,
    /// The values, such as one per round.
    pub(crate) samples: Vec<f64>,
    /// Whether the samples are those of rounds, in which all entrants met the same disturbances.
    #[serde(skip)]
    is_paired: bool,
}

/// The figures of an experiment.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    /// Adds samples of a figure of an entrant, one for each round.
    pub(crate) fn rounds(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        entrant: &str,
        samples: impl IntoIterator<Item = f64>,
    ) {
        let name = name.into();
        let known = self.0.iter_mut().find(|of| of.name == name && of.entrant == entrant);
        if let Some(known) = known {
            return known.samples.extend(samples);
        }
        let figure = Figure {
            unit,
            entrant: entrant.to_owned(),
            samples: samples.into_iter().collect(),
            is_paired: true,
            name,
            ..Figure::default()
        };
        // Figures of the same name are together, in the order of the entrants.
        let last = self.0.iter().rposition(|of| of.name == figure.name);
        self.0.insert(last.map_or(self.0.len(), |last| last + 1), figure);
    }

    /// Adds samples of a figure of an entrant that are independent of the other entrants' samples.
    pub(crate) fn singles(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        entrant: &str,
        samples: impl IntoIterator<Item = f64>,
    ) {
        let name = name.into();
        self.rounds(name.clone(), unit, entrant, samples);
        self.0.iter_mut().filter(|of| of.name == name).for_each(|of| of.is_paired = false);
    }

    /// Adds a figure that is known exactly, unless it is there already.
    pub(crate) fn set(&mut self, name: &str, unit: &'static str, entrant: &str, value: f64) {
        if !self.0.iter().any(|of| of.name == name && of.entrant == entrant) {
            self.rounds(name, unit, entrant, [value]);
        }
    }

    /// Returns the median of a figure of an entrant.
    pub(crate) fn median(&self, name: &str, entrant: &str) -> Option<f64> {
        let of = self.0.iter().find(|of| of.name == name && of.entrant == entrant)?;
        Summary::of(&of.samples).map(|all| all.median)
    }

    /// Adds the measurements of each of the entrants.
    pub(crate) fn add(&mut self, entrants: &[Entrant], goes: Vec<Vec<Sample>>) {
        for (entrant, goes) in entrants.iter().zip(goes) {
            for (name, unit, value) in goes.into_iter().flatten() {
                self.rounds(name, unit, &entrant.name, [value]);
            }
        }
    }

    /// Computes the statistics, and compares the figures with those of the entrant `first`. The outcome has no JSON yet.
    pub(crate) fn outcome(&mut self, first: &str) -> Outcome {
        self.0.retain(|of| !of.samples.is_empty());
        self.compare(first);
        Outcome {
            text: self.tables(first) + &self.verdicts(first),
            csv: self.csv(),
            pictures: self.pictures(),
            ..Outcome::default()
        }
    }

    /// Computes the statistics like [`Self::outcome`], which then also has the figures as JSON.
    ///
    /// # Errors
    /// A value that JSON can't represent.
    pub(crate) fn whole_outcome(mut self, first: &str) -> Result<Outcome, Error> {
        self.outcome(first).with("figures", &self)
    }

    /// Returns the figures in the form of the rows of other experiments.
    pub(crate) fn as_rows(&self) -> Vec<Value> {
        let row = |of: &Figure| {
            json!({ "figure": of.name, "unit": of.unit, "runtime": of.entrant,
            "rounds": of.samples, "ratio": of.ratio })
        };
        self.0.iter().map(row).collect()
    }

    /// Computes the statistics, and compares the figures with those of the entrant `first`.
    pub(crate) fn compare(&mut self, first: &str) {
        let ratio = |of: &Figure| {
            let base = self.0.iter().find(|it| it.name == of.name && it.entrant == first)?;
            let is_paired = of.is_paired && base.samples.len() == of.samples.len();
            let pairing = if is_paired { Pairing::Paired } else { Pairing::Independent };
            let compare = || bootstrap::ratio(&base.samples, &of.samples, pairing);
            (of.entrant != first).then(compare)?
        };
        let ratios: Vec<_> = self.0.iter().map(ratio).collect();
        for (of, ratio) in self.0.iter_mut().zip(ratios) {
            of.summary = Summary::of(&of.samples);
            of.median = bootstrap::middle(&of.samples);
            of.p99 = bootstrap::p99(&of.samples);
            of.ratio = ratio.filter(|ratio| ratio.value.is_finite() && ratio.high.is_finite());
        }
    }

    /// Groups the figures by name, in order.
    fn groups(&self) -> impl Iterator<Item = &[Figure]> {
        self.0.chunk_by(|a, b| a.name == b.name)
    }

    /// Formats a table for each figure.
    pub(crate) fn tables(&self, first: &str) -> String {
        let mut text = String::new();
        let over = format!("{first} ÷ it");
        for group in self.groups() {
            let Some(Figure { name, unit, .. }) = group.first() else { continue };
            let headings =
                [unit, "min", "median", "95 %", "p90", "p99", "95 %", "max", "σ", &over, "95 %"];
            let mut table = Table::new(&headings);
            for of in group {
                let Some(all) = of.summary else { continue };
                let mut cells = vec![of.entrant.clone(), short(all.min), short(all.median)];
                cells.extend([interval(of.median), short(all.p90), short(all.p99)]);
                cells.extend([interval(of.p99), short(all.max), short(all.deviation)]);
                cells.extend(match of.ratio {
                    Some(ratio) => judged(ratio),
                    None if of.entrant == first => Default::default(),
                    None => [plain(group, of, first), String::new()],
                });
                table.row(cells);
            }
            let count = group.iter().map(|of| of.samples.len()).max().unwrap_or(0);
            let _ = writeln!(text, "{name}, {}\n{table}", counted(count, "sample"));
        }
        text
    }

    /// Formats ratios with a row for each figure and a column for each entrant: the first entrant's figure ÷ that
    /// entrant's.
    pub(crate) fn verdicts(&self, first: &str) -> String {
        let has_first = |group: &&[Figure]| group.iter().any(|of| of.entrant == first);
        let groups: Vec<_> = self.groups().filter(has_first).collect();
        let entrants = groups.iter().flat_map(|group| group.iter().map(|of| of.entrant.as_str()));
        let peers = distinct(entrants.filter(|entrant| *entrant != first));
        if peers.is_empty() {
            return String::new();
        }
        let corner = format!("{first}'s ÷ that of");
        let mut table = Table::new(&[&[corner.as_str()], &peers[..]].concat());
        for group in groups {
            let verdict = |peer: &&str| {
                let of = group.iter().find(|of| of.entrant == *peer);
                of.map_or_else(dash, |of| match of.ratio {
                    Some(ratio) => judged(ratio).join(" "),
                    None => plain(group, of, first),
                })
            };
            let name = group[0].name.clone();
            table.row(std::iter::once(name).chain(peers.iter().map(verdict)).collect());
        }
        table.to_string()
    }

    /// Formats every sample.
    fn csv(&self) -> String {
        let lines = self.0.iter().flat_map(|of| {
            let rounds = of.samples.iter().enumerate();
            rounds.map(|(round, value)| (&of.name, of.unit, &of.entrant, round, value))
        });
        lines_of("figure,unit,entrant,round,value", lines)
    }

    /// Draws bars of the medians, one picture per unit.
    fn pictures(&self) -> Vec<Picture> {
        let picture = |unit: &str| {
            let of_unit = self.0.iter().filter(|of| of.unit == unit);
            let medians = of_unit
                .filter_map(|of| Some((of.name.clone(), of.entrant.clone(), of.summary?.median)));
            let title = match unit {
                "ms" => "Median times".to_owned(),
                "ms CPU" => "Median CPU times".to_owned(),
                "KiB" => "Median memory".to_owned(),
                other => format!("Median {other}"),
            };
            bars(&title, unit, medians)
        };
        distinct(self.0.iter().map(|of| of.unit)).into_iter().map(picture).collect()
    }
}

/// Formats the ratio without an interval, for figures with few samples.
fn plain(group: &[Figure], of: &Figure, first: &str) -> String {
    let base = group.iter().find(|it| it.entrant == first).and_then(|it| it.summary);
    match (base, of.summary) {
        (Some(base), Some(own)) if own.median > 0.0 => format!("{:.3}", base.median / own.median),
        _ => dash(),
    }
}

/// What a table shows in place of a missing figure.
pub(crate) fn dash() -> String {
    "-".to_owned()
}

fn interval(of: Option<Estimate>) -> String {
    of.map_or_else(String::new, |of| format!("[{} {}]", short(of.low), short(of.high)))
}

/// Formats a number with four significant digits, but at most three decimal places; from 1000 on, as a whole number.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 1000.0 => 0,
        large if large >= 100.0 => 1,
        large if large >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Figures {
        let mut figures = Figures::default();
        for (entrant, ms, kib) in [("own", 1.0, 10.0), ("other", 4.0, 20.0)] {
            figures.rounds("x", "ms", entrant, [ms; 6]);
            figures.singles("y", "KiB", entrant, [kib; 6]);
        }
        figures
    }

    #[test]
    fn figures_are_gathered_by_name() {
        let mut figures = some();
        figures.compare("own");
        let names: Vec<_> =
            figures.0.iter().map(|of| (of.name.as_str(), of.entrant.as_str())).collect();
        assert_eq!(names, [("x", "own"), ("x", "other"), ("y", "own"), ("y", "other")]);
        assert_eq!(figures.0[1].ratio.map(|ratio| ratio.value), Some(0.25));
        assert!(figures.0[0].ratio.is_none());
    }

    #[test]
    fn tables_and_lines() {
        let Outcome { text, csv, pictures, .. } = some().outcome("own");
        assert!(text.starts_with("x, 6 samples\nms "), "{text}");
        assert!(text.contains("0.250  [0.250 0.250]"), "{text}");
        assert!(text.ends_with("0.500 [0.500 0.500]\n"), "{text}");
        assert_eq!(csv.lines().nth(1), Some("x,ms,own,0,1.0"));
        assert_eq!(csv.lines().count(), 25);
        assert_eq!(pictures.len(), 2);
    }

    #[test]
    fn few_samples_have_a_ratio_without_an_interval() {
        let entrants = ["own", "other"].map(Entrant::named);
        let one = |value| vec![vec![("z".to_owned(), "ms", value)]];
        let mut figures = Figures::default();
        figures.add(&entrants, vec![one(1.0), one(2.0)]);
        assert!(figures.outcome("own").text.contains("0.500"));
    }
}
