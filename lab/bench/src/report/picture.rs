//! A picture of published figures beside the measured ones.

use super::paper::Part;
use super::row::Row;
use crate::harness::*;
use host::measure::chart::{self, Bars};

/// If the ratio between two figures exceeds this number, the figures are drawn in separate pictures.
const APART: f64 = 20.0;

/// Draws bars for each line that has both a published and a measured number, if its unit is that of the first line with
/// a published number. If nothing is published, draws the lines that have the unit of the first line. Returns `None` if
/// there is no such line. Lines with very different values are drawn in separate pictures, one below the other.
pub(super) fn bars_of(lines: &[Row], part: &Part) -> Result<Option<String>, Error> {
    let shown = shown(lines, part);
    if shown.is_empty() {
        return Ok(None);
    }
    // An entrant has the same colour in all pictures of a part, even if only some lines include it.
    let cells = lines.iter().flat_map(|row| &row.measured);
    let entrants = results::distinct(cells.map(|cell| cell.name.as_str()));
    let pictures = by_size(&shown).into_iter().enumerate().map(|(at, rows)| {
        let scale = if at == 0 { "" } else { ", on another scale" };
        let title = match part.bars {
            true => part.place.clone(),
            false => format!("{}: published, and here{scale}", part.name),
        };
        Picture::Bars(Bars { title, ..bars(&rows, &entrants) })
    });
    Ok(Some(chart::draw(&pictures.collect::<Vec<_>>())))
}

/// Returns the lines that are drawn as bars.
pub(super) fn shown<'a>(lines: &'a [Row], part: &Part) -> Vec<&'a Row> {
    let is_first = |row: &&Row| if part.bars { !row.measured.is_empty() } else { has_number(row) };
    let unit = lines.iter().find(is_first).map(|row| &row.unit);
    let is_compared = |row: &Row| has_number(row) && !row.measured.is_empty();
    let is_shown = |row: &&Row| (part.bars || is_compared(row)) && Some(&row.unit) == unit;
    lines.iter().filter(is_shown).collect()
}

/// Returns whether the row has a published figure in its unit.
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
        y: match rows.first().map_or("", |row| &row.unit) {
            "×" => "× (ratio)".to_owned(),
            unit => unit.to_owned(),
        },
        labels: rows.iter().map(|row| row.what.clone()).collect(),
        ..Bars::default()
    };
    let published = rows.iter().flat_map(|row| &row.published);
    for of in results::distinct(published.map(|it| it.of.as_str())) {
        let number = |row: &&Row| row.published.iter().find(|it| it.of == of)?.number;
        let values: Vec<Option<f64>> = rows.iter().map(number).collect();
        if values.iter().any(Option::is_some) {
            bars.series.push((format!("published: {of}"), values));
            bars.intervals.push(Vec::new());
        }
    }
    bars.others = bars.series.len();
    for name in entrants {
        let cell = |row: &&Row| row.measured.iter().find(|cell| cell.name == *name).cloned();
        let cells: Vec<_> = rows.iter().map(cell).collect();
        let values = cells.iter().map(|cell| cell.as_ref().map(|cell| cell.value));
        bars.series.push(((*name).to_owned(), values.collect()));
        bars.intervals.push(cells.iter().map(|cell| cell.as_ref()?.interval).collect());
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(what: &str, published: Option<f64>, (runtime, value): (&str, f64)) -> Row {
        let published =
            published.map(|number| json!({ "text": "", "number": number, "of": "old" }));
        let cell =
            json!({ "name": runtime, "value": value, "interval": [value * 0.9, value * 1.1] });
        let published = published.into_iter().collect::<Vec<_>>();
        serde_json::from_value(
            json!({ "what": what, "unit": "s", "published": published, "measured": [cell] }),
        )
        .expect("a row")
    }

    fn part(more: &str) -> Part {
        let text =
            format!("name = 'ipc'\nplace = 'All'\nabout = ''\nway.nothing = ''\nline = []\n{more}");
        toml::from_str(&text).expect("a part")
    }

    #[test]
    fn measured_figures_alone_are_drawn_on_request() {
        let rows = [row("wall", None, ("dayfly", 4.2)), row("rest", None, ("crun", 22.0))];
        assert!(bars_of(&rows, &part("")).expect("drawn").is_none());
        let text = bars_of(&rows, &part("bars = true")).expect("drawn").expect("a picture");
        assert!(text.contains(">All<") && text.contains("wall") && text.contains("rest"));
    }

    #[test]
    fn small_figures_have_their_own_scale() {
        let part = part("");
        let drawn = |rows: &[Row]| bars_of(rows, &part).expect("drawn");
        let long = row("wall", Some(8.05), ("dayfly", 0.013));
        let short = row("cpu", Some(0.06), ("dayfly", 0.01));
        let text = drawn(&[long.clone(), short]).expect("a picture");
        assert!(text.contains(">ipc: published, and here<") && text.contains("another scale"));
        assert!(!drawn(&[long.clone(), long]).expect("a picture").contains("another scale"));
        assert!(drawn(&[]).is_none());
    }

    #[test]
    fn published_figures_come_first_and_entrants_keep_their_colours() {
        let row = row("b", Some(0.06), ("crun", 2.0));
        let of = bars(&[&row], &["dayfly", "crun"]);
        let names: Vec<&str> = of.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, of.others), (vec!["published: old", "dayfly", "crun"], 1));
        assert_eq!(of.series[1].1, [None]);
        assert_eq!(of.intervals[2][0], Some([1.8, 2.2]));
    }
}
