//! Pictures of results.

use super::{Row, distinct, grouped, title};
use host::measure::chart::{Axis, Bars, Chart, Form, Picture, Series};

/// The number of classes of a distribution per decade.
const CLASSES: f64 = 12.0;

/// Draws bars of the medians, grouped by step, and the distribution of the first step's times.
pub fn pictures(rows: &[Row]) -> Vec<Picture> {
    let medians = rows
        .iter()
        .map(|row| (title(&row.step, row.pause_ms), row.runtime.clone(), row.wall_us.median / 1e3));
    let mut pictures = vec![bars("Median times", "ms", medians)];
    if let Some(first) = rows.first() {
        let same = |row: &&Row| (&row.step, row.pause_ms) == (&first.step, first.pause_ms);
        let rounds = rows.iter().filter(same);
        let of = rounds.map(|row| (row.runtime.as_str(), row.rounds_us.as_slice()));
        pictures.push(distribution(&title(&first.step, first.pause_ms), of));
    }
    pictures
}

/// Draws bars of figures, each with its group and name.
pub(crate) fn bars(
    title: &str,
    unit: &str,
    figures: impl Iterator<Item = (String, String, f64)>,
) -> Picture {
    let figures: Vec<_> = figures.collect();
    let labels = distinct(figures.iter().map(|(label, ..)| label.clone()));
    let series = grouped(figures.into_iter().map(|(label, name, value)| (name, (label, value))));
    let series = series.into_iter().map(|(name, values)| {
        let value = |label| values.iter().rfind(|(of, _)| of == label).map(|(_, value)| *value);
        (name, labels.iter().map(value).collect())
    });
    let (title, y, series) = (title.to_owned(), unit.to_owned(), series.collect());
    Picture::Bars(Bars { title, y, series, labels, ..Bars::default() })
}

/// Draws points, which are grouped by name.
pub(crate) fn chart(
    title: impl Into<String>,
    [x, y]: [Axis; 2],
    form: Form,
    points: impl IntoIterator<Item = (String, (f64, f64))>,
) -> Picture {
    let series = grouped(points).into_iter().map(|(name, points)| Series { name, points });
    let (title, series) = (title.into(), series.collect());
    Picture::Chart(Chart { title, x, y, series, marks: Vec::new(), form })
}

/// Draws the distribution of times, which are in microseconds: the percentage of each class, over milliseconds.
pub(crate) fn distribution<'a>(
    title: &str,
    samples: impl Iterator<Item = (&'a str, &'a [f64])>,
) -> Picture {
    let points = samples
        .flat_map(|(name, samples)| outline(samples).into_iter().map(|at| (name.to_owned(), at)));
    let axes = [Axis::logarithmic("ms"), Axis::linear("% of all")];
    chart(format!("{title}: distribution"), axes, Form::Outlines, points)
}

/// Returns the outline of a histogram.
fn outline(samples: &[f64]) -> Vec<(f64, f64)> {
    let class = |us: f64| ((us / 1e3).log10() * CLASSES).floor();
    let mut classes: Vec<f64> =
        samples.iter().filter(|us| **us > 0.0).map(|&us| class(us)).collect();
    classes.sort_by(f64::total_cmp);
    let (Some(&first), Some(&last)) = (classes.first(), classes.last()) else { return Vec::new() };
    let edge = |class: f64| 10_f64.powf(class / CLASSES);
    let mut points = vec![(edge(first), 0.0)];
    let mut at = first;
    while at <= last {
        let here = classes.iter().filter(|class| **class == at).count();
        let share = here as f64 / classes.len() as f64 * 100.0;
        points.extend([(edge(at), share), (edge(at + 1.0), share)]);
        at += 1.0;
    }
    points.push((edge(at), 0.0));
    points
}

/// Draws every time as a dot, over its sequence number.
pub(crate) fn dots<'a>(
    title: &str,
    samples: impl Iterator<Item = (&'a str, &'a [f64])>,
) -> Picture {
    let points = samples.flat_map(|(name, samples)| {
        samples.iter().zip(1_u32..).map(|(us, at)| (name.to_owned(), (f64::from(at), us / 1e3)))
    });
    chart(title, [Axis::linear("start"), Axis::logarithmic("ms")], Form::Dots, points)
}

/// Draws curves over the number of starts in flight; bars if it is the same for all. A row consists of the curve's name,
/// that number, and the figure.
pub(crate) fn over_width(
    title: &str,
    unit: Axis,
    rows: impl Iterator<Item = (String, usize, Option<f64>)>,
) -> Picture {
    let rows: Vec<_> = rows.collect();
    if let Some((_, first, _)) = rows.first()
        && rows.iter().all(|(_, width, _)| width == first)
    {
        let figures = rows.iter().filter_map(|(name, width, value)| {
            Some((format!("{width} in flight"), name.clone(), (*value)?))
        });
        return bars(title, &unit.title, figures);
    }
    let points =
        rows.into_iter().filter_map(|(name, width, value)| Some((name, (width as f64, value?))));
    chart(title, [Axis::logarithmic("in flight"), unit], Form::Curves, points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_all_samples_in_it() {
        let points = outline(&[1000.0, 1000.0, 1000.0, 10_000.0]);
        let highest = points.iter().map(|point| point.1).fold(0.0, f64::max);
        assert_eq!(highest, 75.0);
        assert!((points[0].0 - 1.0).abs() < 1e-9 && points[0].1 == 0.0);
        let sum: f64 = points.chunks(2).map(|_| 0.0).sum::<f64>()
            + points[1..points.len() - 1].iter().step_by(2).map(|point| point.1).sum::<f64>();
        assert!((sum - 100.0).abs() < 1e-9, "{points:?}");
        assert_eq!(outline(&[]), []);
    }

    #[test]
    fn curves_need_several_widths() {
        let picture = |widths: &[usize]| {
            let rows = widths.iter().map(|&width| ("a".to_owned(), width, Some(2.0)));
            over_width("t", Axis::logarithmic("ms"), rows)
        };
        assert!(
            matches!(picture(&[1, 2]), Picture::Chart(chart) if chart.series[0].points.len() == 2)
        );
        assert!(matches!(picture(&[200]), Picture::Bars(bars) if bars.labels == ["200 in flight"]));
    }
}
