//! A picture of published figures beside the measured ones.

use super::page::Row;
use crate::Error;
use chart::Bars;

/// Draws bars for each line that has a published and a measured number in the unit of the first line with a published
/// number; `None` if there is no such line.
pub(super) fn beside(lines: &[Row], part: &str) -> Result<Option<String>, Error> {
    let has_number = |row: &&Row| row.published.iter().any(|it| it.number.is_some());
    let Some(unit) = lines.iter().find(has_number).map(|row| row.unit) else { return Ok(None) };
    let shown: Vec<&Row> = lines
        .iter()
        .filter(|row| has_number(row) && !row.measured.is_empty() && row.unit == unit)
        .collect();
    if shown.is_empty() {
        return Ok(None);
    }
    let mut series = Vec::new();
    for of in distinct(shown.iter().flat_map(|row| row.published).map(|it| it.of)) {
        let number = |row: &&Row| row.published.iter().find(|it| it.of == of)?.number;
        series.push((format!("published: {of}"), shown.iter().map(number).collect()));
    }
    for name in distinct(shown.iter().flat_map(|row| &row.measured).map(|cell| cell.name.as_str()))
    {
        let of = |row: &&Row| row.measured.iter().find(|cell| cell.name == name).map(|it| it.value);
        series.push((name.to_owned(), shown.iter().map(of).collect()));
    }
    let bars = Bars {
        title: format!("{part}: published, and here"),
        y: unit.to_owned(),
        labels: shown.iter().map(|row| row.what.clone()).collect(),
        series,
        stacked: false,
    };
    bars.svg().map(Some).map_err(|error| Error::Unfit(error.to_string()))
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
