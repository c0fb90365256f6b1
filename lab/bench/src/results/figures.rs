//! Figures with names and units, of several entrants: tables, CSV, pictures.

use super::{bars, distinct, grouped, judged, verdict_table};
use measure::bootstrap::{self, Estimate, Pairing};
use measure::chart::Picture;
use measure::statistics::Summary;
use report::Table;
use report::count::counted;
use report::csv::quoted;
use serde::Serialize;
use std::fmt::Write;

/// The results of one measurement: names, units and values.
pub(crate) type Sample = Vec<(String, &'static str, f64)>;

/// One figure of one entrant.
#[derive(Debug, Serialize)]
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
    /// The first entrant's median ÷ this entrant's median.
    pub(crate) ratio: Option<Estimate>,
    /// A value per round.
    pub(crate) samples: Vec<f64>,
}

/// Groups the samples of `entrants` by figure, then by entrant.
pub(crate) fn gather<'a>(
    entrants: impl Iterator<Item = &'a str>,
    goes: Vec<Vec<Sample>>,
) -> Vec<Figure> {
    let samples = entrants.zip(goes).flat_map(|(entrant, goes)| {
        let samples = goes.into_iter().flatten();
        samples.map(move |(name, unit, value)| ((name, unit), (entrant, value)))
    });
    let mut figures = Vec::new();
    for ((name, unit), samples) in grouped(samples) {
        figures.extend(grouped(samples).into_iter().map(|(entrant, samples)| Figure {
            name: name.clone(),
            unit,
            entrant: entrant.to_owned(),
            summary: Summary::of(&samples),
            median: bootstrap::middle(&samples),
            ratio: None,
            samples,
        }));
    }
    figures
}

/// Compares the figures with those of `first`.
pub(crate) fn compare(figures: &mut [Figure], first: &str) {
    let is_base = |of: &&Figure| of.entrant == first;
    let bases: Vec<_> =
        figures.iter().filter(is_base).map(|of| (of.name.clone(), of.samples.clone())).collect();
    for of in figures.iter_mut().filter(|of| of.entrant != first) {
        let Some((_, base)) = bases.iter().find(|(name, _)| *name == of.name) else { continue };
        let even = base.len() == of.samples.len();
        let pairing = if even { Pairing::Paired } else { Pairing::Independent };
        let ratio = bootstrap::ratio(base, &of.samples, pairing);
        of.ratio = ratio.filter(|ratio| ratio.value.is_finite());
    }
}

/// Groups the figures by name, in order.
fn groups(figures: &[Figure]) -> impl Iterator<Item = &[Figure]> {
    figures.chunk_by(|a, b| a.name == b.name)
}

/// Formats a table for each figure, and a table of all ratios.
pub(crate) fn text(figures: &[Figure], first: &str) -> String {
    let mut text = String::new();
    let over = format!("{first} ÷ it");
    for group in groups(figures) {
        let Some(Figure { name, unit, .. }) = group.first() else { continue };
        let headings = [unit, "min", "median", "95 %", "p90", "max", &over, "95 %"];
        let mut table = Table::new(&headings);
        for of in group {
            let Some(all) = of.summary else { continue };
            let interval = of.median.map_or_else(String::new, |middle| {
                format!("[{} {}]", short(middle.low), short(middle.high))
            });
            let mut cells = vec![of.entrant.clone(), short(all.min), short(all.median), interval];
            cells.extend([short(all.p90), short(all.max)]);
            cells.extend(match of.ratio {
                Some(ratio) => judged(ratio),
                None if of.entrant == first => [String::new(), String::new()],
                None => [plain(group, of, first), String::new()],
            });
            table.row(cells);
        }
        let count = group.iter().map(|of| of.samples.len()).max().unwrap_or(0);
        let _ = writeln!(text, "{name}, {}\n{table}", counted(count, "sample"));
    }
    text + &verdicts(figures, first)
}

/// Formats the ratio without an interval, for figures with few samples.
fn plain(group: &[Figure], of: &Figure, first: &str) -> String {
    let base = group.iter().find(|it| it.entrant == first).and_then(|it| it.summary);
    match (base, of.summary) {
        (Some(base), Some(own)) if own.median > 0.0 => format!("{:.3}", base.median / own.median),
        _ => "-".to_owned(),
    }
}

/// Formats ratios with a row for each figure and a column for each entrant: the first entrant's figure ÷ that
/// entrant's.
fn verdicts(figures: &[Figure], first: &str) -> String {
    let peers = distinct(figures.iter().map(|of| of.entrant.as_str()).filter(|of| *of != first));
    let is_of_first = |group: &&[Figure]| group.iter().any(|of| of.entrant == first);
    let groups: Vec<_> = groups(figures).filter(is_of_first).collect();
    let names = groups.iter().map(|group| group[0].name.clone());
    verdict_table(&format!("{first}'s ÷ that of"), &peers, names, |at, peer| {
        let of = groups[at].iter().find(|of| of.entrant == peer)?;
        Some(of.ratio.map_or_else(|| plain(groups[at], of, first), |ratio| judged(ratio).join(" ")))
    })
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

/// Formats every sample.
pub(crate) fn csv(figures: &[Figure]) -> String {
    let mut text = String::from("figure,unit,entrant,round,value\n");
    for of in figures {
        for (round, value) in of.samples.iter().enumerate() {
            let (name, entrant) = (quoted(&of.name), quoted(&of.entrant));
            let _ = writeln!(text, "{name},{},{entrant},{round},{value:.4}", of.unit);
        }
    }
    text
}

/// Draws bars of the medians, one picture per unit.
pub(crate) fn pictures(figures: &[Figure]) -> Vec<Picture> {
    let picture = |unit| {
        let of_unit = figures.iter().filter(|of| of.unit == unit);
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
    distinct(figures.iter().map(|of| of.unit)).into_iter().map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Figure> {
        let go = |a: f64, b: f64| vec![("x".to_owned(), "ms", a), ("y".to_owned(), "KiB", b)];
        let entrants = ["own", "other"];
        let goes = vec![vec![go(1.0, 10.0); 6], vec![go(4.0, 20.0); 6]];
        let mut figures = gather(entrants.into_iter(), goes);
        compare(&mut figures, "own");
        figures
    }

    #[test]
    fn figures_are_gathered_by_name() {
        let figures = some();
        let names: Vec<_> =
            figures.iter().map(|of| (of.name.as_str(), of.entrant.as_str())).collect();
        assert_eq!(names, [("x", "own"), ("x", "other"), ("y", "own"), ("y", "other")]);
        assert_eq!(figures[1].ratio.map(|ratio| ratio.value), Some(0.25));
        assert!(figures[0].ratio.is_none());
    }

    #[test]
    fn tables_and_lines() {
        let figures = some();
        let text = text(&figures, "own");
        assert!(text.starts_with("x, 6 samples\nms "), "{text}");
        assert!(text.contains("0.250  [0.250 0.250]"), "{text}");
        assert!(text.ends_with("0.500 [0.500 0.500]\n"), "{text}");
        let csv = csv(&figures);
        assert_eq!(csv.lines().nth(1), Some("x,ms,own,0,1.0000"));
        assert_eq!(csv.lines().count(), 25);
        assert_eq!(pictures(&figures).len(), 2);
    }

    #[test]
    fn few_samples_have_a_ratio_without_an_interval() {
        let entrants = ["own", "other"];
        let one = |value| vec![vec![("z".to_owned(), "ms", value)]];
        let mut figures = gather(entrants.into_iter(), vec![one(1.0), one(2.0)]);
        compare(&mut figures, "own");
        assert!(text(&figures, "own").contains("0.500"));
    }
}
