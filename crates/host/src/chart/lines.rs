//! Lines over a number.

use super::{BOTTOM, COLOURS, Frame, LEFT, RIGHT, Series, TOP, scale, text, vertical};
use crate::Error;
use std::fmt::Write;

/// A moment, and what happened then.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Where on the horizontal axis.
    pub x: f64,
    /// What happened.
    pub text: String,
}

impl Mark {
    /// Reads `12.5=swap`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('=');
        let mark =
            parts.and_then(|(x, text)| Some(Self { x: x.parse().ok()?, text: text.to_owned() }));
        mark.ok_or_else(|| {
            Error::refused(format!("--mark {text:?}: must be a number, = and a text"))
        })
    }
}

/// A picture of lines. On a logarithmic axis each doubling is as wide.
#[must_use]
pub fn lines(frame: &Frame, series: &[Series], marks: &[Mark], logarithmic: bool) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let (first, last) = points().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (x, _)| {
        (low.min(*x), high.max(*x))
    });
    let highest = points().fold(0.0, |high: f64, (_, y)| high.max(*y));
    let along = |x: f64| if logarithmic { x.max(1e-9).log2() } else { x };
    let width = (along(last) - along(first)).max(1e-9);
    let place = |x: f64| LEFT + (along(x) - along(first)) / width * (RIGHT - LEFT);

    let mut svg = String::new();
    frame.open(&mut svg);
    Frame::legend(&mut svg, series.iter().map(|series| series.name.as_str()));
    let top = vertical(&mut svg, highest);
    if points().next().is_some() {
        horizontal(&mut svg, (first, last), logarithmic, place);
    }
    for mark in marks.iter().filter(|mark| (first..=last).contains(&mark.x)) {
        let x = place(mark.x);
        let _ = writeln!(svg, "<path class=\"m\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
        text(&mut svg, (x + 5.0, TOP + 10.0), "class=\"q\"", &mark.text);
    }
    for (series, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let mut path = String::new();
        for (x, y) in &series.points {
            let letter = if path.is_empty() { 'M' } else { 'L' };
            let y = BOTTOM - y / top * (BOTTOM - TOP);
            let _ = write!(path, "{letter}{:.1} {y:.1}", place(*x));
        }
        if path.is_empty() {
            continue;
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>"
        );
        // Where there are few points each is worth seeing.
        if series.points.len() <= 16 {
            for (x, y) in &series.points {
                let (x, y) = (place(*x), BOTTOM - y / top * (BOTTOM - TOP));
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                );
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn horizontal(
    svg: &mut String,
    (first, last): (f64, f64),
    logarithmic: bool,
    place: impl Fn(f64) -> f64,
) {
    let _ = writeln!(svg, "<path class=\"x\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>");
    let mut tick = |value: f64, step: f64| {
        let label = scale::label(value, step);
        let at = (place(value), BOTTOM + 18.0);
        text(svg, at, "class=\"q\" text-anchor=\"middle\"", &label);
    };
    if logarithmic {
        let mut value = first.max(1.0);
        while value < last * 0.75 {
            tick(value, 1.0);
            value *= 2.0;
        }
        tick(last, 1.0);
        return;
    }
    let step = scale::step(last - first, 10);
    let mut value = (first / step).ceil() * step;
    while value <= last + step * 1e-6 {
        tick(value, step);
        value += step;
    }
}
