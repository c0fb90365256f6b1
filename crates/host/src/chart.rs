//! Pictures of figures: lines over a number, and groups of bars. They stand alone: no script, no font,
//! nothing loaded.

mod bars;
mod lines;
mod scale;

pub use bars::bars;
pub use lines::{Mark, lines};

use crate::Error;
use crate::options::host::{Chart, ChartKind};
use std::fmt::{self, Write};
use std::io::Read;

/// Of a picture, in pixels.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 460.0;
/// Where what is drawn lies between.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 876.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 408.0;

/// Those of Okabe and Ito, which colour-blind people can tell apart.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444", "#a8a8a8"];

/// Values of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Places on the horizontal axis and values there.
    pub points: Vec<(f64, f64)>,
}

/// What stands around what is drawn.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// The heading.
    pub title: String,
    /// What the horizontal axis shows.
    pub x: String,
    /// What the vertical axis shows.
    pub y: String,
}

impl Frame {
    fn open(&self, svg: &mut String) {
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
             <title>{title}</title>\n\
             <style>.q{{fill:#666}}.g{{stroke:#e4e4e4;fill:none}}.x{{stroke:#888;fill:none}}\
             .m{{stroke:#999;stroke-dasharray:4 3;fill:none}}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n",
            title = Xml(&self.title),
        );
        text(svg, (24.0, 32.0), "font-size=\"18\" font-weight=\"bold\"", &self.title);
        text(svg, (LEFT - 52.0, TOP - 12.0), "class=\"q\"", &self.y);
        let middle = f64::midpoint(LEFT, RIGHT);
        text(svg, (middle, BOTTOM + 40.0), "class=\"q\" text-anchor=\"middle\"", &self.x);
    }

    /// The names of the series in their colours, in a row.
    fn legend<'a>(svg: &mut String, names: impl Iterator<Item = &'a str>) {
        let mut x = 24.0;
        for (name, colour) in names.zip(COLOURS.iter().cycle()) {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"44\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
            );
            text(svg, (x + 18.0, 54.0), "", name);
            x += 36.0 + 7.0 * name.chars().count() as f64;
        }
    }
}

/// The lines across at round values, from zero to the value returned.
fn vertical(svg: &mut String, highest: f64) -> f64 {
    let step = scale::step(highest, 6);
    let top = (highest / step).ceil().max(1.0) * step;
    let count = (top / step).round() as u32;
    for index in 0..=count {
        let value = f64::from(index) * step;
        let y = BOTTOM - value / top * (BOTTOM - TOP);
        let _ = writeln!(svg, "<path class=\"g\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        let label = scale::label(value, step);
        text(svg, (LEFT - 8.0, y + 4.0), "class=\"q\" text-anchor=\"end\"", &label);
    }
    top
}

fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", Xml(text));
}

/// A text in XML 1.0, which has no room for control characters.
struct Xml<'a>(&'a str);

impl fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                letter if letter.is_control() => f.write_char(' ')?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// `dayfly host chart`: a picture of the CSV on standard input. The first line names the columns.
///
/// # Errors
/// A cell that is no number, by line.
pub fn command(options: &Chart) -> Result<(), Error> {
    let mut csv = String::new();
    std::io::stdin()
        .read_to_string(&mut csv)
        .map_err(|error| Error::system("read", "standard input", error))?;
    let picture = match options.kind {
        ChartKind::Lines => {
            let (x, series) = columns(&csv)?;
            let marks = options.marks.iter().map(|mark| Mark::parse(mark));
            let marks = marks.collect::<Result<Vec<_>, _>>()?;
            let frame = Frame { title: options.title.clone(), x, y: options.y.clone() };
            lines(&frame, &series, &marks, false)
        }
        ChartKind::Bars => {
            let (labels, series) = groups(&csv)?;
            let frame =
                Frame { title: options.title.clone(), x: String::new(), y: options.y.clone() };
            bars(&frame, &labels, &series)
        }
    };
    print!("{picture}");
    Ok(())
}

fn rows(csv: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = csv.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| (index + 1, line.split(',').map(str::trim).collect()))
}

fn number(line: usize, cell: &str) -> Result<f64, Error> {
    let number = cell.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Error::at("standard input", line, format!("{cell:?} is no number")))
}

/// The name of the first column, and each other one as a series over it. Empty cells are left out.
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

/// The first column as labels, and each other one as a series of bars.
fn groups(csv: &str) -> Result<(Vec<String>, Vec<Series>), Error> {
    let mut labels = Vec::new();
    let mut numbered = String::new();
    for (index, (_, cells)) in rows(csv).enumerate() {
        let (label, cells) =
            cells.split_first().map_or(("", &[][..]), |(label, rest)| (*label, rest));
        if index > 0 {
            labels.push(label.to_owned());
        }
        let _ = writeln!(numbered, "{index},{}", cells.join(","));
    }
    Ok((labels, columns(&numbered)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Well formed as far as it goes: every element is closed.
    fn check(svg: &str) {
        let opened = svg.matches('<').count() - svg.matches("</").count() * 2;
        assert_eq!(opened, svg.matches("/>").count(), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn lines_of_csv() {
        let (x, series) = columns("seconds,a,b\n0,1,2\n1,,3\n").unwrap();
        assert_eq!((x.as_str(), series.len()), ("seconds", 2));
        assert_eq!(series[0].points, [(0.0, 1.0)]);
        assert_eq!(series[1].points, [(0.0, 2.0), (1.0, 3.0)]);
        let frame = Frame { title: "a <b> & c".into(), x, y: "per second".into() };
        for log in [false, true] {
            let marks = [Mark { x: 0.5, text: "swap".into() }];
            let svg = lines(&frame, &series, &marks, log);
            check(&svg);
            assert!(svg.contains("a &lt;b&gt; &amp; c") && svg.contains("swap"));
        }
        check(&lines(&frame, &[], &[], false));
        assert!(columns("x,a\n0,one\n").unwrap_err().to_string().contains("standard input:2"));
    }

    #[test]
    fn bars_of_csv() {
        let (labels, series) = groups("case,one,two\nfree,1,2\nheld,3,4\n").unwrap();
        assert_eq!(labels, ["free", "held"]);
        let svg = bars(&Frame::default(), &labels, &series);
        check(&svg);
        assert_eq!(svg.matches("class=\"b\"").count(), 4);
        check(&bars(&Frame::default(), &[], &[]));
    }
}
