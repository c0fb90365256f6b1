//! What the page says first: a few sentences, and bars of the other runtimes' figures as multiples of dayfly's.

use super::row::Row;
use crate::base::*;
use host::measure::chart::{self, Bars, digits};

/// The name of the picture's file.
pub(super) const PICTURE: &str = "first-1.svg";

/// The runtimes; all figures are divided by the first one's.
const RUNTIMES: [&str; 3] = ["dayfly", "crun", "runc"];

/// The sentences, and the picture (SVG); nothing if no line has all figures.
#[derive(Debug, Default)]
pub(super) struct First {
    /// The sentences, each an entry of a list.
    pub sentences: Vec<String>,
    pub picture: String,
}

/// `first.toml`.
#[derive(Debug, Deserialize)]
struct Data {
    line: Vec<Line>,
}

/// A sentence about a line of a part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    part: String,
    what: String,
    /// The name of the bars.
    bar: String,
    text: String,
    /// Whether a higher figure is a better one, so that the bars show its reciprocal.
    #[serde(default)]
    is_rate: bool,
}

impl Line {
    /// Returns the runtimes' figures.
    fn figures<'a>(&self, row: &impl Fn(&str, &str) -> Found<'a>) -> Option<([f64; 3], String)> {
        let (row, groups) = row(&self.part, &self.what)?;
        let [dayfly, crun, runc] = RUNTIMES.map(|name| row.cell(name).map(|cell| cell.value));
        let groups = groups.map(|groups| format!(" ({groups})")).unwrap_or_default();
        Some(([dayfly?, crun?, runc?], groups))
    }
}

/// A row of a part, and the cgroups in which it was measured.
pub(super) type Found<'a> = Option<(&'a Row, Option<String>)>;

impl First {
    /// Makes them from the page's rows: `row` returns the row of a part with this name.
    pub(super) fn of<'a>(row: impl Fn(&str, &str) -> Found<'a>) -> Result<Self, Error> {
        let data: Data =
            toml::from_str(include_str!("first.toml")).expect("data of the first lines");
        let lines = data.line.iter();
        let lines: Vec<_> = lines.filter_map(|line| Some((line, line.figures(&row)?))).collect();
        if lines.is_empty() {
            return Ok(Self::default());
        }
        let sentence = |(line, (figures, groups)): &(&Line, ([f64; 3], String))| {
            let figures = RUNTIMES.iter().zip(figures);
            let text = format!("- {}{groups}.", line.text.trim_end_matches('.'));
            figures.fold(text, |text, (name, figure)| {
                text.replace(&format!("{{{name}}}"), &digits(*figure))
            })
        };
        let multiples = |at: usize| {
            let of = |(line, (figures, _)): &(&Line, ([f64; 3], String))| {
                let multiple = figures[at] / figures[0];
                Some(if line.is_rate { 1.0 / multiple } else { multiple })
            };
            (RUNTIMES[at].to_owned(), lines.iter().map(of).collect())
        };
        let bars = Bars {
            title: "crun and runc as multiples of dayfly: less is better".to_owned(),
            y: "× dayfly".to_owned(),
            labels: lines.iter().map(|(line, _)| line.bar.clone()).collect(),
            series: (0..RUNTIMES.len()).map(multiples).collect(),
            ..Bars::default()
        };
        let picture = chart::draw(&[Picture::Bars(bars)]);
        Ok(Self { sentences: lines.iter().map(sentence).collect(), picture })
    }
}
