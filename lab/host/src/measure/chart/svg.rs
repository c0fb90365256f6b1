//! Pictures as SVG text, with a style for dark pages.

use std::fmt::{self, Write};

/// The font, and the colours for dark pages. Rules of style take precedence over attributes.
pub const STYLE: &str = include_str!("picture.css");

/// A colour: `#` and two hexadecimal digits each for red, green and blue.
pub(crate) type Colour = &'static str;

/// A position in pixels.
pub(crate) type Point = (i32, i32);

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { x, y, width, height } = self;
        write!(f, r#"x="{x}" y="{y}" width="{width}" height="{height}""#)
    }
}

/// The side of its position on which a text is.
pub(crate) type Side = &'static str;

pub(crate) const ABOVE: Side = r#"dy="-0.5ex" text-anchor="middle""#;
pub(crate) const BELOW: Side = r#"dy="0.76em" text-anchor="middle""#;
pub(crate) const LEFT: Side = r#"dy="0.5ex" text-anchor="end""#;
pub(crate) const RIGHT: Side = r#"dy="0.5ex" text-anchor="start""#;
pub(crate) const RIGHT_BELOW: Side = r#"dy="0.76em" text-anchor="start""#;

/// A picture in the making.
pub(crate) struct Svg(String);

impl Svg {
    /// Returns a white picture.
    pub(crate) fn new(width: i32, height: i32) -> Self {
        let size = format!(r#"width="{width}" height="{height}" viewBox="0 0 {width} {height}""#);
        let style = STYLE.replace('\n', "");
        let head = format!(r#"<svg {size} xmlns="http://www.w3.org/2000/svg">"#);
        let mut svg = Self(format!("{head}\n<style>{style}</style>\n"));
        svg.fill(Area { x: 0, y: 0, width, height }, "#FFFFFF", "");
        svg
    }

    /// Returns the picture's file.
    pub(crate) fn finished(self) -> String {
        self.0 + "</svg>\n"
    }

    fn add(&mut self, element: fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }

    /// Fills an area; `opacity` is empty or an attribute.
    pub(crate) fn fill(&mut self, area: Area, colour: Colour, opacity: &str) {
        self.add(format_args!(r#"<rect {area}{opacity} fill="{colour}"/>"#));
    }

    /// Adds an outline in the form of the attribute `d`, filled with three quarters of a colour.
    pub(crate) fn path(&mut self, outline: &str, colour: Colour) {
        self.add(format_args!(r#"<path opacity="0.75" fill="{colour}" d="{outline}"/>"#));
    }

    pub(crate) fn line(&mut self, (x, y): Point, (right, lower): Point, colour: Colour) {
        let ends = format!(r#"x1="{x}" y1="{y}" x2="{right}" y2="{lower}""#);
        self.add(format_args!(r#"<line stroke="{colour}" {ends}/>"#));
    }

    pub(crate) fn polyline(&mut self, points: &[Point], width: u32, colour: Colour) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let points = format!(r#"points="{}""#, points.join(" "));
        let width = if width == 1 { String::new() } else { format!(r#" stroke-width="{width}""#) };
        self.add(format_args!(r#"<polyline fill="none" stroke="{colour}"{width} {points}/>"#));
    }

    pub(crate) fn dot(&mut self, (x, y): Point, radius: u32, colour: Colour) {
        self.add(format_args!(r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>"#));
    }

    pub(crate) fn text(&mut self, at: Point, side: Side, size: f64, text: &str) {
        self.words(at, side, size, "", text);
    }

    /// Writes a text from bottom to top.
    pub(crate) fn upright(&mut self, (x, y): Point, side: Side, size: f64, text: &str) {
        self.words((x, y), side, size, &format!(r#" transform="rotate(270, {x}, {y})""#), text);
    }

    /// Writes a text with more attributes, which begin with a blank.
    pub(crate) fn words(&mut self, (x, y): Point, side: Side, size: f64, more: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let head = format!(r#"<text x="{x}" y="{y}" {side} font-size="{size}"{more}>"#);
        self.add(format_args!("{head}{text}</text>"));
    }
}
