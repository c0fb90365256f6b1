//! Pictures of curves, groups of bars, stacks and nested boxes as self-contained SVG, which needs no scripts, fonts or
//! external resources.

mod bars;
mod boxes;
mod flame;
mod legend;
mod ruler;

pub use bars::Bars;
pub use boxes::{Boxes, Cell, Matrix, Outer, Tray};
pub use flame::Flame;
pub use ruler::{digits, whole_or_digits};

use std::fmt;
use std::ops::Range;

use legend::{Entry, Sign};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, Circle, Color, DrawingArea, DrawingBackend, IntoDrawingArea, LineSeries,
    PathElement, RGBColor, SVGBackend, WHITE,
};
use ruler::Ruler;

/// The size of one picture, in pixels.
const SIZE: (u32, u32) = (900, 420);

/// The colours of series: the Okabe-Ito palette, which colour-blind people can distinguish, with a darker yellow. More
/// colours are added for pictures with many series.
const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(68, 68, 68),
    RGBColor(176, 166, 0),
    RGBColor(140, 86, 60),
    RGBColor(150, 150, 150),
    RGBColor(84, 39, 136),
    RGBColor(160, 200, 90),
];

/// The colour of grid lines and other decoration.
const LIGHT: RGBColor = RGBColor(225, 225, 225);

/// The colour of the marks on the horizontal axis.
const MARK: RGBColor = RGBColor(120, 120, 120);

/// The maximum number of dots of one curve.
const MOST_DOTS: usize = 60;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A linear scale that begins at 0.
    Linear,
    /// A logarithmic scale. Values that are 0 or negative are left out.
    Logarithmic,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The quantity that the axis shows, with its unit.
    pub title: String,
    /// The scale.
    pub scale: Scale,
}

impl Axis {
    /// Returns an axis that begins at 0.
    pub fn linear(title: impl Into<String>) -> Self {
        Self { title: title.into(), scale: Scale::Linear }
    }

    /// Returns a logarithmic axis.
    pub fn logarithmic(title: impl Into<String>) -> Self {
        Self { title: title.into(), scale: Scale::Logarithmic }
    }
}

/// A curve.
#[derive(Debug, Clone)]
pub struct Series {
    /// The name of the curve in the legend.
    pub name: String,
    /// The points of the curve, in drawing order.
    pub points: Vec<(f64, f64)>,
}

/// A picture of several curves over the same axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// The horizontal axis, for the independent variable.
    pub x: Axis,
    /// The vertical axis, for the measured quantity.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// Marks on the horizontal axis, with their labels.
    pub marks: Vec<(f64, String)>,
    /// The form in which the points are drawn.
    pub form: Form,
}

/// The form of the points of curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Dots joined by lines; without dots if there are too many to be told apart.
    Curves,
    /// Dots without lines.
    Dots,
    /// Lines without dots: outlines, whose points are not measured values.
    Outlines,
}

/// A picture of any kind.
#[derive(Debug, Clone)]
pub enum Picture {
    /// Curves.
    Chart(Chart),
    /// Groups of bars.
    Bars(Bars),
    /// A flame graph of sampled stacks.
    Flame(Flame),
}

/// The drawing library's error message.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "draw picture: {}", self.0)
    }
}

impl std::error::Error for Error {}

/// Renders charts as one SVG picture, each below the previous one.
///
/// # Errors
/// Errors of the drawing library.
pub fn svg(charts: &[Chart]) -> Result<String, Error> {
    below_each_other(charts, |chart, area| chart.draw(area))
}

/// Renders pictures of any kind as one SVG picture, each below the previous one.
///
/// # Errors
/// Errors of the drawing library.
pub fn draw(pictures: &[Picture]) -> Result<String, Error> {
    below_each_other(pictures, |picture, area| match picture {
        Picture::Chart(chart) => chart.draw(area),
        Picture::Bars(bars) => bars.draw(area),
        Picture::Flame(flame) => flame.draw(area),
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn below_each_other<T>(
    pictures: &[T],
    draw: impl Fn(&T, &Area<'_>) -> Result<(), Error>,
) -> Result<String, Error> {
    let mut text = String::new();
    {
        let height = SIZE.1 * u32::try_from(pictures.len().max(1)).unwrap_or(1);
        let area = SVGBackend::with_string(&mut text, (SIZE.0, height)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (picture, area) in pictures.iter().zip(area.split_evenly((pictures.len().max(1), 1))) {
            draw(picture, &area)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(error: impl fmt::Display) -> Error {
    Error(error.to_string())
}

impl Chart {
    fn draw<D: DrawingBackend>(&self, area: &DrawingArea<D, Shift>) -> Result<(), Error> {
        let shown = |&(x, y): &(f64, f64)| self.x.scale.shows(x) && self.y.scale.shows(y);
        let series: Vec<Series> = self
            .series
            .iter()
            .map(|of| Series {
                name: of.name.clone(),
                points: of.points.iter().copied().filter(shown).collect(),
            })
            .collect();
        let points = || series.iter().flat_map(|of| &of.points);
        let (Some(x), Some(y)) = (
            Ruler::of(self.x.scale, points().map(|at| at.0)),
            Ruler::of(self.y.scale, points().map(|at| at.1)),
        ) else {
            return Ok(());
        };
        let sign = if self.form == Form::Dots { Sign::Dot } else { Sign::Line };
        let entries = series.iter().filter(|of| !of.points.is_empty());
        let mut entries: Vec<Entry> = entries
            .zip(COLOURS.iter().cycle().copied())
            .map(|(of, colour)| Entry { name: &of.name, colour, sign })
            .collect();
        entries.extend(self.marks.iter().map(|(_, name)| Entry {
            name,
            colour: MARK,
            sign: Sign::Upright,
        }));
        let area = legend::beside(area, &entries)?;
        let mut context = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        context
            .configure_mesh()
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .bold_line_style(LIGHT)
            .draw()
            .map_err(failed)?;
        self.mark(&mut context)?;
        let shown = series.iter().filter(|of| !of.points.is_empty());
        for (of, colour) in shown.zip(COLOURS.iter().cycle().copied()) {
            if self.form != Form::Dots {
                let line = LineSeries::new(of.points.iter().copied(), colour.stroke_width(2));
                context.draw_series(line).map_err(failed)?;
            }
            let is_dense = self.form == Form::Curves && of.points.len() > MOST_DOTS;
            if self.form != Form::Outlines && !is_dense {
                let dots = of.points.iter().map(|&at| Circle::new(at, 3, colour.filled()));
                context.draw_series(dots).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Draws a vertical line at each mark.
    fn mark<D: DrawingBackend>(
        &self,
        context: &mut ChartContext<'_, D, Cartesian2d<Ruler, Ruler>>,
    ) -> Result<(), Error> {
        let Range { start, end } = context.y_range();
        for (at, _) in &self.marks {
            let line = PathElement::new([(*at, start), (*at, end)], MARK.stroke_width(2));
            context.draw_series([line]).map_err(failed)?;
        }
        Ok(())
    }
}

impl Scale {
    fn shows(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Linear || value > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x: Axis, y: Axis, points: &[(f64, f64)]) -> Chart {
        let series = vec![Series { name: "fd <mode>".to_owned(), points: points.to_vec() }];
        let title = "Layers & mounts".to_owned();
        Chart { title, x, y, series, marks: Vec::new(), form: Form::Curves }
    }

    #[test]
    fn every_pair_of_scales_can_be_drawn() {
        let points = [(1.0, 2.5), (10.0, 3.0), (500.0, 1800.0)];
        for x in [Axis::linear("layers"), Axis::logarithmic("layers")] {
            for y in [Axis::linear("ms"), Axis::logarithmic("ms")] {
                let text = svg(&[chart(x.clone(), y, &points)]).expect("drawn");
                assert_eq!(text.matches("<circle").count(), points.len());
                assert!(text.contains("fd &lt;mode&gt;") && text.contains("Layers &amp; mounts"));
            }
        }
    }

    #[test]
    fn what_a_scale_has_no_place_for_is_left_out() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.0), (3.0, 4.0)];
        let text = svg(&[chart(Axis::logarithmic(""), Axis::logarithmic(""), &points)]);
        assert_eq!(text.expect("drawn").matches("<circle").count(), 1);
    }

    #[test]
    fn nothing_is_a_picture_too() {
        let text = svg(&[chart(Axis::linear(""), Axis::linear(""), &[])]).expect("drawn");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(svg(&[]).is_ok());
    }

    #[test]
    fn marks_have_their_words() {
        let mut chart = chart(Axis::linear("s"), Axis::linear("tps"), &[(0.0, 1.0), (9.0, 2.0)]);
        chart.marks.push((4.0, "swap".to_owned()));
        assert!(svg(&[chart]).expect("drawn").contains("swap"));
    }

    #[test]
    fn bars_stand_in_groups() {
        let bars = Bars {
            title: "a <b>".to_owned(),
            y: "tps".to_owned(),
            labels: vec!["free".to_owned(), "held".to_owned()],
            series: vec![
                ("one".to_owned(), vec![Some(1.0), Some(3.0)]),
                ("two".to_owned(), vec![None, Some(4.0)]),
            ],
            ..Bars::default()
        };
        let text = bars.svg().expect("drawn");
        assert!(text.contains("free") && text.contains("held") && text.contains("a &lt;b&gt;"));
        assert!(Bars::default().svg().is_ok());
        // Each group is a stack, whose height is the sum of its bars.
        let stacked = Bars { stacked: true, ..bars };
        let both = draw(&[
            Picture::Bars(stacked),
            Picture::Chart(chart(Axis::linear("x"), Axis::linear("y"), &[(1.0, 2.0)])),
        ]);
        let text = both.expect("drawn");
        assert!(text.contains("held") && text.contains("Layers &amp; mounts"));
    }

    #[test]
    fn names_of_groups_stand_below_their_own_picture() {
        let bars = |label: &str| {
            Picture::Bars(Bars {
                labels: vec![label.to_owned()],
                series: vec![("one".to_owned(), vec![Some(1.0)])],
                ..Bars::default()
            })
        };
        let text = draw(&[bars("upper"), bars("lower")]).expect("drawn");
        let y = |label: &str| -> u32 {
            let before = text.split(&format!("\n{label}\n")).next().expect("its element");
            let (_, y) = before.rsplit_once(" y=\"").expect("a place");
            y.split('"').next().and_then(|y| y.parse().ok()).expect("a number")
        };
        assert!(y("upper") < SIZE.1 && y("lower") < 2 * SIZE.1, "{} {}", y("upper"), y("lower"));
        assert_eq!(y("lower") - y("upper"), SIZE.1);
    }

    #[test]
    fn dots_are_not_joined() {
        let mut chart = chart(Axis::linear("s"), Axis::linear("ms"), &[(0.0, 1.0), (9.0, 2.0)]);
        let lines = |chart: &Chart| {
            let text = svg(std::slice::from_ref(chart)).expect("drawn");
            text.matches("stroke=\"#0072B2\"").count()
        };
        let joined = lines(&chart);
        chart.form = Form::Dots;
        assert!(lines(&chart) < joined, "{joined}");
    }

    #[test]
    fn curves_of_many_points_have_no_dots() {
        let points: Vec<(f64, f64)> = (0..61).map(|at| (f64::from(at), 1.0)).collect();
        let circles = |points: &[(f64, f64)]| {
            let chart = chart(Axis::linear("s"), Axis::linear("ms"), points);
            svg(&[chart]).expect("drawn").matches("<circle").count()
        };
        assert_eq!((circles(&points[..60]), circles(&points)), (60, 0));
    }

    #[test]
    fn outlines_have_no_dots() {
        let mut chart = chart(Axis::linear("ms"), Axis::linear("%"), &[(1.0, 0.0), (1.0, 9.0)]);
        chart.form = Form::Outlines;
        assert!(!svg(&[chart]).expect("drawn").contains("<circle"));
    }

    #[test]
    fn an_axis_of_zeros_has_readable_ticks() {
        let points = [(1.0, 0.0), (16.0, 0.0)];
        let text = svg(&[chart(Axis::logarithmic("in flight"), Axis::linear("%"), &points)]);
        let text = text.expect("drawn");
        assert!(text.contains("\n0.2\n") && !text.contains("\n0.\n"), "{text}");
        assert!(text.contains("\n16\n"), "{text}");
    }

    #[test]
    fn series_without_points_are_not_named() {
        let mut chart = chart(Axis::linear("s"), Axis::linear("ms"), &[(0.0, 1.0)]);
        chart.series.push(Series { name: "nobody".to_owned(), points: Vec::new() });
        assert!(!svg(&[chart]).expect("drawn").contains("nobody"));
    }
}
