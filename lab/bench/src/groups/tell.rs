//! Formats the results as tables, lines and pictures.

use super::{Groups, Row, Shown, Use};
use crate::harness::*;
use host::measure::chart::{Chart, Series};

/// Returns the rows of a use, and its states in their order.
fn of_use(shown: &Shown, of: Use) -> (Vec<&Row>, Vec<&str>) {
    let rows: Vec<&Row> = shown.rows.iter().filter(|row| row.of == of).collect();
    let states = results::distinct(rows.iter().map(|row| row.state.as_str()));
    (rows, states)
}

pub(super) fn text(options: &Groups, shown: &Shown) -> String {
    let mut text = String::new();
    for &of in &options.uses {
        let (rows, states) = of_use(shown, of);
        let last = states.last().filter(|_| states.len() > 1);
        let change = |row: &Row, percent: fn(&super::Change) -> Option<f64>| {
            let mut changes = shown.changes.iter().filter(|it| it.of == of);
            let change = changes.find(|it| it.instance == row.instance)?;
            let percent = percent(change).filter(|_| last == Some(&row.state.as_str()))?;
            Some(format!("{percent:+.1} %"))
        };
        let table = Table::of(
            rows,
            &[
                ("", &|row| row.state.clone()),
                ("instance", &|row| row.instance.clone()),
                ("transactions/s", &|row| format!("{:.0}", row.rate())),
                ("p99 µs", &|row| row.p99_us.map_or_else(dash, |us| format!("{us:.1}"))),
                ("than before", &|row| change(row, |it| Some(it.percent)).unwrap_or_default()),
                ("by CPU time", &|row| change(row, |it| it.percent_per_cpu).unwrap_or_default()),
            ],
        );
        let table = table.left(&[0, 1]);
        let _ = writeln!(text, "{}, {:?} each\n{table}", of.name(), options.phase);
    }
    for note in &shown.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

pub(super) fn csv(shown: &Shown) -> String {
    let lines = shown.rows.iter().flat_map(|row| {
        let rates = row.rates.iter().enumerate();
        rates.map(|(at, rate)| (row.of.name(), &row.state, &row.instance, at, rate))
    });
    results::lines_of("use,state,instance,tenth,transactions_per_s", lines)
}

/// Draws states as bars, and changes over time as curves, one picture per unit.
pub(super) fn pictures(options: &Groups, shown: &Shown) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for &of in &options.uses {
        let (rows, _) = of_use(shown, of);
        if rows.is_empty() {
            continue;
        }
        let bars = rows.iter().map(|row| (row.state.clone(), row.instance.clone(), row.rate()));
        pictures.push(results::bars(
            &format!("{}: transactions", of.name()),
            "transactions/s",
            bars,
        ));
        if of == Use::Rogue {
            let bars = rows.iter().filter(|row| row.instance == "neighbour");
            let bars =
                bars.filter_map(|row| Some((row.state.clone(), row.instance.clone(), row.p99_us?)));
            pictures.push(results::bars(
                "rogue: the slowest hundredth of the neighbour's",
                "p99, µs",
                bars,
            ));
        }
        let curves = || shown.curves.iter().filter(move |curve| curve.of == of);
        let marks: Vec<(f64, String)> = shown
            .marks
            .iter()
            .filter(|(it, ..)| *it == of)
            .map(|(_, at, words)| (*at, (*words).to_owned()))
            .collect();
        // The host's free memory is far more than what one instance uses, and has its own scale.
        let is_free = |name: &str| name.starts_with("free memory");
        for (what, unit, free) in [
            ("transactions", "transactions/s", false),
            ("free memory", "MiB", true),
            ("the held instance's memory, and swap", "MiB", false),
        ] {
            let of_unit =
                curves().filter(|curve| curve.unit == unit && is_free(&curve.name) == free);
            let series: Vec<Series> = of_unit
                .map(|curve| Series { name: curve.name.clone(), points: thinned(&curve.points) })
                .collect();
            if !series.is_empty() {
                pictures.push(Picture::Chart(Chart {
                    title: format!("{}: {what}, over time", of.name()),
                    x: Axis::linear("s"),
                    y: Axis::linear(unit),
                    series,
                    marks: marks.clone(),
                    form: Form::Curves,
                }));
            }
        }
    }
    pictures
}

/// Replaces many points by the means of neighbours, so that a picture shows curves and not a band of noise.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    /// The number of points from which on curves overlap in a picture.
    const MOST: usize = 220;
    let of_each = points.len().div_ceil(MOST).max(1);
    let mean = |points: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        points.iter().map(of).sum::<f64>() / points.len() as f64
    };
    points.chunks(of_each).map(|some| (mean(some, |at| at.0), mean(some, |at| at.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_thinned() {
        let points: Vec<(f64, f64)> = (0..660).map(|at| (f64::from(at), 2.0)).collect();
        assert_eq!(thinned(&points[..200]), points[..200]);
        let thin = thinned(&points);
        assert_eq!(thin.len(), 220);
        assert_eq!((thin[0], thin[219]), ((1.0, 2.0), (658.0, 2.0)));
        assert_eq!(thinned(&[]), []);
    }
}
