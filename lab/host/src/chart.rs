//! `dayfly host chart`: draws figures from CSV.

use crate::measure::chart::{self, Axis, Bars, Chart, Form, Picture, Series};
use crate::options::{Chart as Options, ChartKind};
use report::{Error, say};
use std::io::Read;

/// Parses `12.5=swap`.
///
/// # Errors
/// Text of any other form.
fn mark(text: &str) -> Result<(f64, String), Error> {
    let parts = text.split_once('=');
    let mark = parts.and_then(|(x, text)| Some((x.parse().ok()?, text.to_owned())));
    mark.ok_or_else(|| refused!("--mark {text:?}: must be a number, = and a text"))
}

/// Draws the CSV on standard input. The first line contains the names of the columns.
///
/// # Errors
/// A cell that is not a number, with its line.
pub fn command(options: &Options) -> Result<(), Error> {
    let (title, y) = (options.title.clone(), options.y.clone());
    let csv = Csv::of(std::io::stdin())?;
    let picture = match options.kind {
        ChartKind::Lines => {
            let marks = options.marks.iter().map(|text| mark(text)).collect::<Result<_, _>>()?;
            let (series, x, y) = (csv.lines()?, Axis::linear(csv.first), Axis::linear(y));
            Picture::Chart(Chart { title, x, y, series, marks, form: Form::Curves })
        }
        ChartKind::Bars => {
            let labels = csv.rows.into_iter().map(|(_, label)| label).collect();
            Picture::Bars(Bars { title, y, labels, series: csv.columns, ..Bars::default() })
        }
    };
    say!("{}", chart::draw(&[picture]));
    Ok(())
}

/// The numbers of a CSV document, whose first column has the rows' labels.
struct Csv {
    /// The name of the first column.
    first: String,
    /// The line and the label of each row.
    rows: Vec<(usize, String)>,
    /// The name of each other column, with its number in each row; `None` for an empty cell.
    columns: Vec<(String, Vec<Option<f64>>)>,
}

impl Csv {
    fn of(csv: impl Read) -> Result<Self, Error> {
        let wrong = |error: csv::Error| refused!("standard input: {error}");
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.trim(csv::Trim::All).flexible(true).from_reader(csv);
        let mut names = reader.headers().map_err(wrong)?.iter().map(str::to_owned);
        let first = names.next().unwrap_or_default();
        let columns = names.map(|name| (name, Vec::new())).collect();
        let mut all = Self { first, rows: Vec::new(), columns };
        for record in reader.records() {
            let record = record.map_err(wrong)?;
            let line = record.position().map_or(0, |at| at.line() as usize);
            let mut cells = record.iter();
            all.rows.push((line, cells.next().unwrap_or_default().to_owned()));
            for (_, values) in &mut all.columns {
                let cell = cells.next().filter(|cell| !cell.is_empty());
                values.push(cell.map(|cell| number(line, cell)).transpose()?);
            }
        }
        Ok(all)
    }

    /// Returns the columns as lines over the labels, which must be numbers. Empty cells are skipped.
    fn lines(&self) -> Result<Vec<Series>, Error> {
        let places = self.rows.iter().map(|(line, label)| number(*line, label));
        let places = places.collect::<Result<Vec<f64>, _>>()?;
        let series = |(name, values): &(String, Vec<Option<f64>>)| {
            let points = places.iter().zip(values).filter_map(|(x, y)| Some((*x, (*y)?)));
            Series { name: name.clone(), points: points.collect() }
        };
        Ok(self.columns.iter().map(series).collect())
    }
}

fn number(line: usize, cell: &str) -> Result<f64, Error> {
    let number = cell.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Error::at("standard input", line, format!("{cell:?} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_csv() {
        let csv = Csv::of(&b"seconds,a,b\n0,1,2\n\n1,,3\n"[..]).unwrap();
        let series = csv.lines().unwrap();
        assert_eq!((csv.first.as_str(), series.len()), ("seconds", 2));
        assert_eq!(series[0].points, [(0.0, 1.0)]);
        assert_eq!(series[1].points, [(0.0, 2.0), (1.0, 3.0)]);
        let bars = Csv::of(&b"case,one,two\nfree,1,2\nheld,,4\n"[..]).unwrap();
        assert_eq!(bars.rows, [(2, "free".to_owned()), (3, "held".to_owned())]);
        assert_eq!(bars.columns[0], ("one".to_owned(), vec![Some(1.0), None]));
        for error in [Csv::of(&b"x,a\n0,one\n"[..]).err(), bars.lines().err()] {
            assert!(error.unwrap().to_string().contains("standard input:2"));
        }
    }

    #[test]
    fn marks() {
        assert_eq!(mark("12.5=swap").unwrap(), (12.5, "swap".to_owned()));
        assert!(mark("swap").is_err());
    }
}
