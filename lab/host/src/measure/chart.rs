//! Pictures of curves, groups of bars and stacks as self-contained SVG, which needs no scripts, fonts or
//! external resources.

mod bars;
mod flame;
mod legend;
mod ruler;
mod svg;

pub use bars::Bars;
pub use flame::Flame;
pub use ruler::{digits, whole_or_digits};
pub use svg::STYLE;

use legend::{Entry, Sign};
use ruler::Ruler;
use svg::{ABOVE, Area, BELOW, Colour, LEFT, Point, Svg};

/// The size of one picture, in pixels.
const SIZE: (i32, i32) = (900, 420);

/// The colours of series: the Okabe-Ito palette, which colour-blind people can distinguish, with a darker yellow. More
/// colours are added for pictures with many series.
const COLOURS: [Colour; 12] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#B0A600",
    "#8C563C", "#969696", "#542788", "#A0C85A",
];

/// The colour of grid lines and other decoration.
const LIGHT: Colour = "#E1E1E1";

/// The colour of the marks on the horizontal axis.
const MARK: Colour = "#787878";

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

/// Renders pictures as one SVG picture, each below the previous one.
pub fn draw(pictures: &[Picture]) -> String {
    let (width, height) = SIZE;
    let count = i32::try_from(pictures.len().max(1)).unwrap_or(1);
    let mut svg = Svg::new(width, height * count);
    for (picture, at) in pictures.iter().zip(0..) {
        let area = Area { x: 0, y: at * height, width, height };
        match picture {
            Picture::Chart(chart) => chart.draw(&mut svg, area),
            Picture::Bars(bars) => bars.draw(&mut svg, area),
            Picture::Flame(flame) => flame.draw(&mut svg, area),
        }
    }
    svg.finished()
}

impl Chart {
    fn draw(&self, svg: &mut Svg, area: Area) {
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
            return;
        };
        let sign = if self.form == Form::Dots { Sign::Dot } else { Sign::Line };
        let marks =
            self.marks.iter().map(|(_, name)| Entry { name, colour: MARK, sign: Sign::Upright });
        let entries = series.iter().map(|((name, _), colour)| Entry { name, colour, sign });
        let entries: Vec<Entry> = entries.chain(marks).collect();
        let area = legend::beside(svg, area, &entries);
        let frame = Frame::draw(svg, area, 44, [&self.title, &self.x.title, &self.y.title], (x, y));
        for (at, _) in &self.marks {
            let x = frame.x(*at);
            svg.polyline(&[(x, frame.vertical.0), (x, frame.vertical.1)], 2, MARK);
        }
        for ((_, points), colour) in series {
            let points: Vec<Point> =
                points.into_iter().map(|(x, y)| (frame.x(x), frame.y(y))).collect();
            if self.form != Form::Dots {
                svg.polyline(&points, 2, colour);
            }
            let is_dense = self.form == Form::Curves && points.len() > MOST_DOTS;
            if self.form != Form::Outlines && !is_dense {
                points.into_iter().for_each(|at| svg.dot(at, 3, colour));
            }
        }
    }
}

/// Two axes, with the space between them.
struct Frame {
    rulers: (Ruler, Ruler),
    /// The first and the last pixel of the horizontal axis.
    horizontal: (i32, i32),
    /// The first and the last pixel of the vertical axis: the lower one and the upper one.
    vertical: (i32, i32),
}

impl Frame {
    /// Draws axes with this much space below them. The titles are those of the picture, of the horizontal and of the
    /// vertical axis.
    fn draw(
        svg: &mut Svg,
        area: Area,
        below: i32,
        [title, of_x, of_y]: [&str; 3],
        rulers: (Ruler, Ruler),
    ) -> Self {
        let (left, right) = (area.x + 88, area.x + area.width - 13);
        let (top, bottom) = (area.y + 38, area.y + area.height - 13 - below);
        let frame = Self { rulers, horizontal: (left, right), vertical: (bottom, top) };
        let across: Vec<(i32, f64)> =
            frame.rulers.0.ticks.iter().map(|tick| (frame.x(*tick), *tick)).collect();
        let along: Vec<(i32, f64)> =
            frame.rulers.1.ticks.iter().map(|tick| (frame.y(*tick), *tick)).collect();
        svg.text((area.x + area.width / 2, area.y + 17), BELOW, 18.0, title);
        svg.upright((area.x + 12, i32::midpoint(top, bottom + 1)), BELOW, 12.0, of_y);
        if !of_x.is_empty() {
            let middle = i32::midpoint(left, right + 1);
            svg.text((middle, area.y + area.height - 12), ABOVE, 12.0, of_x);
        }
        for (x, _) in &across {
            svg.line((*x, bottom), (*x, top), LIGHT);
        }
        for (y, _) in &along {
            svg.line((left, *y), (right, *y), LIGHT);
        }
        svg.polyline(&[(left - 1, top), (left - 1, bottom)], 1, "#000000");
        for (y, tick) in along {
            svg.text((left - 10, y), LEFT, 12.0, &ruler::tick(tick));
            svg.polyline(&[(left - 6, y), (left - 1, y)], 1, "#000000");
        }
        svg.polyline(&[(left, bottom + 1), (right, bottom + 1)], 1, "#000000");
        for (x, tick) in across {
            svg.text((x, bottom + 11), BELOW, 12.0, &ruler::tick(tick));
            svg.polyline(&[(x, bottom + 1), (x, bottom + 6)], 1, "#000000");
        }
        frame
    }

    fn x(&self, value: f64) -> i32 {
        self.rulers.0.pixel(value, self.horizontal)
    }

    fn y(&self, value: f64) -> i32 {
        self.rulers.1.pixel(value, self.vertical)
    }
}

/// Returns the colours of series, in their order.
fn colours() -> impl Iterator<Item = Colour> {
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
        draw(&[Picture::Chart(chart.clone())])
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
        assert!(draw(&[]).ends_with("</svg>\n"));
    }

    #[test]
    fn marks_have_their_words() {
        let marks = vec![(4.0, "swap".to_owned())];
        assert!(svg(&Chart { marks, ..linear(&[(0.0, 1.0), (9.0, 2.0)]) }).contains("swap"));
    }

    #[test]
    fn pictures_stand_below_each_other() {
        let (chart, bars) = (Picture::Chart(linear(&[(1.0, 2.0)])), Picture::Bars(Bars::default()));
        let text = draw(&[chart, bars]);
        let heading = |y: i32| format!("y=\"{y}\" {BELOW} font-size=\"18\"");
        for y in [17, 17 + SIZE.1] {
            assert_eq!(text.matches(&heading(y)).count(), 1, "{y}: {text}");
        }
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
