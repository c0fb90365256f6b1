//! `dayfly host chart`: draws figures from CSV.

use crate::options::{Chart as Options, ChartKind};
use measure::chart::{self, Axis, Bars, Chart, Form, Picture, Series};
use report::{Error, say};
use std::io::Read;

/// Parses `12.5=swap`.
///
/// # Errors
/// Text of any other form.
fn mark(text: &str) -> Result<(f64, String), Error> {
    let parts = text.split_once('=');
    let mark = parts.and_then(|(x, text)| Some((x.parse().ok()?, text.to_owned())));
    mark.ok_or_else(|| Error::refused(format!("--mark {text:?}: must be a number, = and a text")))
}

/// Draws the CSV on standard input. The first line contains the names of the columns.
///
/// # Errors
/// A cell that is not a number, with its line.
pub fn command(options: &Options) -> Result<(), Error> {
    let mut csv = String::new();
    std::io::stdin()
        .read_to_string(&mut csv)
        .map_err(|error| Error::system("read", "standard input", error))?;
    let (title, y) = (options.title.clone(), options.y.clone());
    let picture = match options.kind {
        ChartKind::Lines => {
            let (x, series) = columns(&csv)?;
            let marks = options.marks.iter().map(|text| mark(text)).collect::<Result<_, _>>()?;
            let (x, y) = (Axis::linear(x), Axis::linear(y));
            Picture::Chart(Chart { title, x, y, series, marks, form: Form::Curves })
        }
        ChartKind::Bars => {
            let (labels, series) = groups(&csv)?;
            Picture::Bars(Bars { title, y, labels, series, ..Bars::default() })
        }
    };
    let drawn = chart::draw(&[picture]);
    say!("{}", drawn.map_err(|error| Error::refused(error.to_string()))?);
    Ok(())
}

fn rows(csv: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = csv.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| (index + 1, line.split(',').map(str::trim).collect()))
}

fn number(line: usize, cell: &str) -> Result<f64, Error> {
    let number = cell.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Error::at("standard input", line, format!("{cell:?} is not a number")))
}

/// Returns the name of the first column, and a series for each other column. The first column has the x values of all
/// series. Empty cells are skipped.
fn columns(csv: &str) -> Result<(String, Vec<Series>), Error> {
    let mut rows = rows(csv);
    let (_, names) = rows.next().unwrap_or_default();
    let (x, names) = names.split_first().map_or(("", &[][..]), |(x, names)| (*x, names));
    let mut series: Vec<Series> =
        names.iter().map(|name| Series { name: (*name).to_owned(), points: Vec::new() }).collect();
    for (line, cells) in rows {
        let Some((place, cells)) = cells.split_first() else { continue };
        let place = number(line, place)?;
        for (of, cell) in series.iter_mut().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            of.points.push((place, number(line, cell)?));
        }
    }
    Ok((x.to_owned(), series))
}

/// The name of a series, and its value in each group; `None` for an empty cell.
type Group = (String, Vec<Option<f64>>);

/// Returns the first column as labels, and each other column as a series of bars.
fn groups(csv: &str) -> Result<(Vec<String>, Vec<Group>), Error> {
    let mut rows = rows(csv);
    let (_, names) = rows.next().unwrap_or_default();
    let mut series: Vec<Group> =
        names.iter().skip(1).map(|name| ((*name).to_owned(), Vec::new())).collect();
    let mut labels = Vec::new();
    for (line, cells) in rows {
        let Some((label, cells)) = cells.split_first() else { continue };
        labels.push((*label).to_owned());
        for (at, (_, values)) in series.iter_mut().enumerate() {
            let cell = cells.get(at).filter(|cell| !cell.is_empty());
            values.push(cell.map(|cell| number(line, cell)).transpose()?);
        }
    }
    Ok((labels, series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_csv() {
        let (x, series) = columns("seconds,a,b\n0,1,2\n1,,3\n").unwrap();
        assert_eq!((x.as_str(), series.len()), ("seconds", 2));
        assert_eq!(series[0].points, [(0.0, 1.0)]);
        assert_eq!(series[1].points, [(0.0, 2.0), (1.0, 3.0)]);
        assert!(columns("x,a\n0,one\n").unwrap_err().to_string().contains("standard input:2"));
    }

    #[test]
    fn bars_of_csv() {
        let (labels, series) = groups("case,one,two\nfree,1,2\nheld,,4\n").unwrap();
        assert_eq!(labels, ["free", "held"]);
        assert_eq!(series[0], ("one".to_owned(), vec![Some(1.0), None]));
        assert_eq!(series[1], ("two".to_owned(), vec![Some(2.0), Some(4.0)]));
        assert!(groups("case,one\nfree,x\n").unwrap_err().to_string().contains("standard input:2"));
    }

    #[test]
    fn marks() {
        assert_eq!(mark("12.5=swap").unwrap(), (12.5, "swap".to_owned()));
        assert!(mark("swap").is_err());
    }
}
