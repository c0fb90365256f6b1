//! A picture of published figures beside the measured ones.

use super::row::Row;
use crate::Error;
use measure::chart::{self, Bars, Picture};

/// If the ratio between two figures exceeds this number, the figures are drawn in separate pictures.
const APART: f64 = 20.0;

/// Draws bars for each line that has both a published and a measured number, if its unit is that of the first line with
/// a published number. Returns `None` if there is no such line. Lines with very different values are drawn in separate
/// pictures, one below the other.
pub(super) fn beside(lines: &[Row], part: &str) -> Result<Option<String>, Error> {
    let Some(unit) = lines.iter().find(|row| has_number(row)).map(|row| row.unit) else {
        return Ok(None);
    };
    let shown: Vec<&Row> = lines
        .iter()
        .filter(|row| has_number(row) && !row.measured.is_empty() && row.unit == unit)
        .collect();
    if shown.is_empty() {
        return Ok(None);
    }
    // An entrant has the same colour in all pictures of a part, even if only some lines include it.
    let entrants =
        distinct(lines.iter().flat_map(|row| &row.measured).map(|cell| cell.name.as_str()));
    let pictures: Vec<Picture> = by_size(&shown)
        .iter()
        .enumerate()
        .map(|(at, rows)| {
            let scale = if at == 0 { "" } else { ", on another scale" };
            let title = format!("{part}: published, and here{scale}");
            Picture::Bars(Bars { title, ..bars(rows, &entrants) })
        })
        .collect();
    chart::draw(&pictures).map(Some).map_err(|error| Error::Unfit(error.to_string()))
}

fn has_number(row: &Row) -> bool {
    row.published.iter().any(|it| it.number.is_some())
}

/// Groups rows whose largest figures are of a similar size.
fn by_size<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<(f64, Vec<&Row>)> = Vec::new();
    for row in rows {
        let published = row.published.iter().filter_map(|it| it.number);
        let figures = published.chain(row.measured.iter().map(|cell| cell.value));
        let size = figures.map(f64::abs).fold(0.0, f64::max);
        let fits = |of: &f64| *of <= size * APART && size <= *of * APART;
        match groups.iter_mut().find(|(of, _)| fits(of)) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((size, vec![row])),
        }
    }
    groups.into_iter().map(|(_, rows)| rows).collect()
}

fn bars(rows: &[&Row], entrants: &[&str]) -> Bars {
    let mut bars = Bars {
        y: match rows.first().map_or("", |row| row.unit) {
            "×" => "× (ratio)".to_owned(),
            unit => unit.to_owned(),
        },
        labels: rows.iter().map(|row| row.what.clone()).collect(),
        ..Bars::default()
    };
    for of in distinct(rows.iter().flat_map(|row| row.published).map(|it| it.of)) {
        let number = |row: &&Row| row.published.iter().find(|it| it.of == of)?.number;
        let values: Vec<Option<f64>> = rows.iter().map(number).collect();
        if values.iter().any(Option::is_some) {
            bars.series.push((format!("published: {of}"), values));
            bars.intervals.push(Vec::new());
        }
    }
    bars.others = bars.series.len();
    for name in entrants {
        let of = |row: &&Row| row.measured.iter().find(|cell| cell.name == *name).cloned();
        let cells: Vec<_> = rows.iter().map(of).collect();
        let values = cells.iter().map(|cell| cell.as_ref().map(|cell| cell.value));
        bars.series.push(((*name).to_owned(), values.collect()));
        bars.intervals.push(cells.iter().map(|cell| cell.as_ref()?.interval).collect());
    }
    bars
}

/// Returns each name once, in order of appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::super::paper::Published;
    use super::super::take::Cell;
    use super::*;

    const LONG: &[Published] = &[Published::number("8.05 s", 8.05, "before")];
    const SHORT: &[Published] =
        &[Published::number("0.06 s", 0.06, "before"), Published::text("a little", "after")];

    fn row(what: &str, published: &'static [Published], measured: &[(&str, f64)]) -> Row {
        let cell = |&(name, value): &(&str, f64)| Cell {
            name: name.to_owned(),
            value,
            interval: Some([value * 0.9, value * 1.1]),
        };
        Row {
            what: what.to_owned(),
            unit: "s",
            published,
            measured: measured.iter().map(cell).collect(),
        }
    }

    #[test]
    fn small_figures_have_their_own_scale() {
        let rows =
            [row("wall", LONG, &[("dayfly", 0.013)]), row("cpu", SHORT, &[("dayfly", 0.01)])];
        let text = beside(&rows, "ipc").expect("drawn").expect("a picture");
        assert!(text.contains("ipc: published, and here\n") && text.contains("another scale"));
        let rows =
            [row("wall", LONG, &[("dayfly", 0.013)]), row("more", LONG, &[("dayfly", 0.01)])];
        assert!(
            !beside(&rows, "ipc").expect("drawn").expect("a picture").contains("another scale")
        );
        assert!(beside(&rows[..0], "ipc").expect("nothing").is_none());
    }

    #[test]
    fn published_figures_come_first_and_entrants_keep_their_colours() {
        let rows = [row("a", &[], &[("dayfly", 1.0)]), row("b", SHORT, &[("crun", 2.0)])];
        let of = bars(&[&rows[1]], &["dayfly", "crun"]);
        let names: Vec<&str> = of.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, of.others), (vec!["published: before", "dayfly", "crun"], 1));
        assert_eq!(of.series[1].1, [None]);
        assert_eq!(of.intervals[2][0], Some([1.8, 2.2]));
    }
}
