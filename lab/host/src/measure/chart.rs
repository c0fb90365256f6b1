//! Pictures of curves, groups of bars, stacks and nested boxes as self-contained SVG, which needs no scripts, fonts or
//! external resources.

mod bars;
mod boxes;
mod file;
mod flame;
mod legend;
mod ruler;

pub use bars::Bars;
pub use boxes::{Boxes, Cell, Outer, Tray};
pub use file::{STYLE, finished};
pub use flame::Flame;
pub use ruler::{digits, whole_or_digits};

use std::ops::Range;

use legend::{Entry, Sign};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, Circle, Color, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, LineSeries,
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

/// An error of the drawing library.
#[derive(Debug, thiserror::Error)]
#[error("draw picture: {0}")]
pub struct Error(#[from] DrawingAreaErrorKind<std::io::Error>);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Context<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Ruler, Ruler>>;

/// Renders pictures as one SVG picture, each below the previous one.
///
/// # Errors
/// Errors of the drawing library.
pub fn draw(pictures: &[Picture]) -> Result<String, Error> {
    let count = pictures.len().max(1);
    let mut text = String::new();
    {
        let height = SIZE.1 * u32::try_from(count).unwrap_or(1);
        let area = SVGBackend::with_string(&mut text, (SIZE.0, height)).into_drawing_area();
        area.fill(&WHITE)?;
        for (picture, area) in pictures.iter().zip(area.split_evenly((count, 1))) {
            match picture {
                Picture::Chart(chart) => chart.draw(&area)?,
                Picture::Bars(bars) => bars.draw(&area)?,
                Picture::Flame(flame) => flame.draw(&area)?,
            }
        }
        area.present()?;
    }
    Ok(finished(&text))
}

impl Chart {
    fn draw(&self, area: &Area<'_>) -> Result<(), Error> {
        let shown = |&(x, y): &(f64, f64)| self.x.scale.shows(x) && self.y.scale.shows(y);
        let series = self.series.iter().map(|of| {
            let points: Vec<_> = of.points.iter().copied().filter(shown).collect();
            (&of.name, points)
        });
        let series: Vec<_> =
            series.filter(|(_, points)| !points.is_empty()).zip(colours()).collect();
        let points = || series.iter().flat_map(|((_, points), _)| points);
        let (Some(x), Some(y)) = (
            Ruler::of(self.x.scale, points().map(|at| at.0)),
            Ruler::of(self.y.scale, points().map(|at| at.1)),
        ) else {
            return Ok(());
        };
        let sign = if self.form == Form::Dots { Sign::Dot } else { Sign::Line };
        let mut entries: Vec<Entry> = series
            .iter()
            .map(|((name, _), colour)| Entry { name, colour: *colour, sign })
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
            .build_cartesian_2d(x, y)?;
        context
            .configure_mesh()
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .bold_line_style(LIGHT)
            .draw()?;
        let Range { start, end } = context.y_range();
        for (at, _) in &self.marks {
            let line = PathElement::new([(*at, start), (*at, end)], MARK.stroke_width(2));
            context.draw_series([line])?;
        }
        for ((_, points), colour) in series {
            if self.form != Form::Dots {
                context.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            }
            let is_dense = self.form == Form::Curves && points.len() > MOST_DOTS;
            if self.form != Form::Outlines && !is_dense {
                let dots = points.into_iter().map(|at| Circle::new(at, 3, colour.filled()));
                context.draw_series(dots)?;
            }
        }
        Ok(())
    }
}

/// Returns the colours of series, in their order.
fn colours() -> impl Iterator<Item = RGBColor> {
    COLOURS.iter().cycle().copied()
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

    /// Returns a chart over linear axes.
    fn linear(points: &[(f64, f64)]) -> Chart {
        chart(Axis::linear("s"), Axis::linear("ms"), points)
    }

    fn svg(chart: &Chart) -> String {
        draw(&[Picture::Chart(chart.clone())]).expect("drawn")
    }

    fn dots(chart: &Chart) -> usize {
        svg(chart).matches("<circle").count()
    }

    #[test]
    fn every_pair_of_scales_can_be_drawn() {
        let points = [(1.0, 2.5), (10.0, 3.0), (500.0, 1800.0)];
        for x in [Axis::linear("layers"), Axis::logarithmic("layers")] {
            for y in [Axis::linear("ms"), Axis::logarithmic("ms")] {
                let chart = chart(x.clone(), y, &points);
                let text = svg(&chart);
                assert_eq!(dots(&chart), points.len());
                assert!(text.contains("fd &lt;mode&gt;") && text.contains("Layers &amp; mounts"));
            }
        }
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.0), (3.0, 4.0)];
        assert_eq!(dots(&chart(Axis::logarithmic(""), Axis::logarithmic(""), &points)), 1);
        let mut chart = linear(&[(0.0, 1.0)]);
        chart.series.push(Series { name: "nobody".to_owned(), points: Vec::new() });
        assert!(!svg(&chart).contains("nobody"));
        let text = svg(&linear(&[]));
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(draw(&[]).is_ok());
    }

    #[test]
    fn marks_have_their_words() {
        let marks = vec![(4.0, "swap".to_owned())];
        assert!(svg(&Chart { marks, ..linear(&[(0.0, 1.0), (9.0, 2.0)]) }).contains("swap"));
    }

    #[test]
    fn pictures_stand_below_each_other() {
        let bars = |label: &str| {
            Picture::Bars(Bars {
                labels: vec![label.to_owned()],
                series: vec![("one".to_owned(), vec![Some(1.0)])],
                ..Bars::default()
            })
        };
        let text = draw(&[bars("upper"), bars("lower"), Picture::Chart(linear(&[(1.0, 2.0)]))]);
        let text = text.expect("drawn");
        let y = |label: &str| -> u32 {
            let before = text.split(&format!(">{label}<")).next().expect("its element");
            let (_, y) = before.rsplit_once(" y=\"").expect("a place");
            y.split('"').next().and_then(|y| y.parse().ok()).expect("a number")
        };
        assert!(y("upper") < SIZE.1 && y("lower") < 2 * SIZE.1, "{} {}", y("upper"), y("lower"));
        assert_eq!(y("lower") - y("upper"), SIZE.1);
        assert!(y("Layers &amp; mounts") > 2 * SIZE.1);
    }

    #[test]
    fn forms_have_lines_or_dots() {
        let points: Vec<(f64, f64)> = (0..61).map(|at| (f64::from(at), 1.0)).collect();
        let of = |form, count: usize| {
            let chart = Chart { form, ..linear(&points[..count]) };
            (dots(&chart), svg(&chart).contains("<polyline fill=\"none\" stroke=\"#0072B2\""))
        };
        assert_eq!((of(Form::Curves, 60), of(Form::Curves, 61)), ((60, true), (0, true)));
        // One of the dots is in the legend.
        assert_eq!((of(Form::Dots, 61), of(Form::Outlines, 2)), ((62, false), (0, true)));
    }
}
