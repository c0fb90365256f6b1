//! Groups of bars.

use super::{BOTTOM, COLOURS, Frame, LEFT, RIGHT, Series, TOP, text, vertical};
use std::fmt::Write;

/// A picture of bars: a group for each label, in it a bar of each series. Point i of a series belongs to
/// label i − 1, as its place says.
#[must_use]
pub fn bars(frame: &Frame, labels: &[String], series: &[Series]) -> String {
    let values = series.iter().flat_map(|series| &series.points);
    let highest = values.fold(0.0, |high: f64, (_, y)| high.max(*y));
    let mut svg = String::new();
    frame.open(&mut svg);
    Frame::legend(&mut svg, series.iter().map(|series| series.name.as_str()));
    let top = vertical(&mut svg, highest);
    let group = (RIGHT - LEFT) / labels.len().max(1) as f64;
    let bar = group * 0.8 / series.len().max(1) as f64;
    for (index, label) in labels.iter().enumerate() {
        let left = LEFT + group * index as f64;
        let middle = left + group / 2.0;
        text(&mut svg, (middle, BOTTOM + 18.0), "class=\"q\" text-anchor=\"middle\"", label);
        for (place, (series, colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let value = series.points.iter().find(|(at, _)| *at == (index + 1) as f64);
            let Some((_, value)) = value else { continue };
            let x = left + group * 0.1 + bar * place as f64;
            let high = value / top * (BOTTOM - TOP);
            let y = BOTTOM - high;
            let wide = (bar - 2.0).max(1.0);
            let _ = writeln!(
                svg,
                "<rect class=\"b\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{colour}\"/>"
            );
            let shown = format!("{value:.0}");
            text(
                &mut svg,
                (x + wide / 2.0, y - 4.0),
                "class=\"q\" text-anchor=\"middle\" font-size=\"10\"",
                &shown,
            );
        }
    }
    let _ = writeln!(svg, "<path class=\"x\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>");
    svg.push_str("</svg>\n");
    svg
}
