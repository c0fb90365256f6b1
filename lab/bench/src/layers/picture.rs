//! The curves: latency by layers, and the probe's measurements.

use super::Row;
use super::figures::distinct;
use measure::chart::{Axis, Chart, Form, Picture, Series};
use measure::statistics::Summary;

/// For each number of starts at a time, draws a chart of the latencies and a chart of the probe's measurements.
pub(super) fn draw(rows: &[Row]) -> Vec<Picture> {
    distinct(rows, |row| row.width)
        .into_iter()
        .flat_map(|width| {
            let latency = |row: &Row| median(&row.load.latencies_us);
            let probe = |row: &Row| Summary::of(&row.load.health.read_us).map(|times| times.p99);
            [
                curves(rows, width, "start to end of a container", "ms, median", latency),
                curves(rows, width, "the host meanwhile", "ms to read mountinfo, p99", probe),
            ]
        })
        .map(Picture::Chart)
        .collect()
}

fn median(times: &[f64]) -> Option<f64> {
    Summary::of(times).map(|times| times.median)
}

fn curves(
    rows: &[Row],
    width: usize,
    title: &str,
    unit: &str,
    us: impl Fn(&Row) -> Option<f64>,
) -> Chart {
    let series = distinct(rows, |row| row.case.way()).into_iter().map(|way| {
        let of_way = rows.iter().filter(|row| row.width == width && row.case.way() == way);
        let points = of_way.filter_map(|row| Some((row.case.layers as f64, us(row)? / 1e3)));
        Series { points: points.collect(), name: way }
    });
    Chart {
        title: format!("{title}, {width} at a time"),
        x: Axis::logarithmic("layers"),
        y: Axis::logarithmic(unit),
        series: series.collect(),
        marks: Vec::new(),
        form: Form::Curves,
    }
}
