//! Charts of grouped bars.

use super::*;
use crate::measure::chart::legend::wrapped;
use crate::measure::chart::ruler::{span, tick, whole_or_digits};
use crate::measure::chart::svg::RIGHT;
use std::ops::Range;

/// The colours of published values.
const GREYS: [Colour; 4] = ["#BEBEBE", "#969696", "#6E6E6E", "#D7CDB9"];

/// The size of labels, and the approximate width of a letter, in pixels.
const LABEL: (f64, f64) = (10.0, 6.0);

/// A bar chart. Each label has a group of bars, which contains a bar for each series.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// The heading.
    pub title: String,
    /// The measured quantity, with its unit.
    pub y: String,
    /// The names of the groups.
    pub labels: Vec<String>,
    /// The name of each series, with its value in each group; for `None`, no bar is drawn.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// The interval of each value, by series and group, as far as known.
    pub intervals: Vec<Vec<Option<[f64; 2]>>>,
    /// The number of series at the front of the list that are drawn in greys: published values,
    /// which were not measured on this host.
    pub others: usize,
    /// Whether the bars of a group are stacked instead of side by side.
    pub stacked: bool,
}

/// A bar: its edges, its values, and its colour.
#[derive(Debug, Clone, Copy)]
struct Bar {
    /// The left and the right edge, in units of the width of a group.
    edges: (f64, f64),
    /// The lower and the upper edge or, if the value is negative, the other way round.
    values: (f64, f64),
    interval: Option<[f64; 2]>,
    colour: Colour,
    /// Whether the value is a published one, which is printed with all its digits.
    is_published: bool,
}

impl Bars {
    /// Returns the value of a series in a group.
    fn value(&self, series: usize, group: usize) -> Option<f64> {
        let (_, values) = self.series.get(series)?;
        values.get(group).copied().flatten().filter(|value| value.is_finite())
    }

    /// Returns the colours of the series.
    fn colours(&self) -> impl Iterator<Item = Colour> {
        let greys = GREYS.iter().cycle().take(self.others.min(self.series.len()));
        greys.copied().chain(colours())
    }

    /// Lays out the bars. The bars of a group are stacked, or side by side in the middle of the
    /// group. There are no gaps for series that have no value in the group.
    fn layout(&self) -> Vec<Bar> {
        let present = |group: usize| -> Vec<(usize, f64)> {
            let series = 0..self.series.len();
            series.filter_map(|of| Some((of, self.value(of, group)?))).collect()
        };
        let groups: Vec<_> = (0..self.labels.len()).map(present).collect();
        let most = groups.iter().map(Vec::len).max().unwrap_or(0);
        let wide = 0.84 / if self.stacked { 1.0 } else { most.max(1) as f64 };
        let gap = wide * 0.03;
        let colours: Vec<Colour> = self.colours().take(self.series.len()).collect();
        let mut bars = Vec::new();
        for (group, present) in groups.into_iter().enumerate() {
            let count = if self.stacked { 1 } else { present.len() };
            let mut left = group as f64 + 0.5 - wide * count as f64 / 2.0;
            let mut floor = 0.0;
            for (series, value) in present {
                bars.push(Bar {
                    edges: (left + gap, left + wide - gap),
                    values: (floor, floor + value),
                    interval: self.intervals.get(series).and_then(|of| *of.get(group)?),
                    colour: colours[series],
                    is_published: series < self.others,
                });
                if self.stacked { floor += value } else { left += wide }
            }
        }
        bars
    }

    pub(crate) fn draw(&self, svg: &mut Svg, area: Area) {
        let groups = self.labels.len().max(1) as f64;
        let series = self.series.iter().zip(self.colours());
        let entries: Vec<Entry> = series
            .filter(|((_, values), _)| values.iter().any(Option::is_some))
            .map(|((name, _), colour)| Entry { name, colour, sign: Sign::Box })
            .collect();
        let area = legend::beside(svg, area, &entries);
        let bars = self.layout();
        let mut x = Ruler::new(Scale::Linear, 0.0..groups);
        // The groups have names instead of ticks.
        x.ticks.clear();
        let y = Ruler::new(Scale::Linear, range(&bars));
        let frame = Frame::draw(svg, area, 64, [&self.title, "", &self.y], (x, y));
        let (left, right) = frame.horizontal;
        let group = f64::from(right - left + 1) / groups;
        self.draw_bars(svg, &frame, &bars, group);
        // Without negative bars, this line is the axis.
        svg.polyline(&[(left, frame.y(0.0)), (right, frame.y(0.0))], 1, MARK);
        self.name_groups(svg, &frame, group);
    }

    /// Draws the bars, their intervals, and their values as text. The last argument is the width of
    /// a group in pixels.
    fn draw_bars(&self, svg: &mut Svg, frame: &Frame, bars: &[Bar], group: f64) {
        let fits = |bar: &Bar| {
            let wide = (bar.edges.1 - bar.edges.0) * group;
            bar.text().chars().count() as f64 * LABEL.1 <= wide + 4.0
        };
        let are_upright = !bars.iter().all(fits);
        for bar in bars {
            let (left, right) = bar.edges;
            let ends = [frame.y(bar.values.0), frame.y(bar.values.1)];
            let (x, y) = (frame.x(left), ends[0].min(ends[1]));
            let (width, height) = (frame.x(right) - x, ends[0].max(ends[1]) - y);
            svg.fill(Area { x, y, width, height }, bar.colour, "");
            let middle = f64::midpoint(left, right);
            if let Some([low, high]) = bar.interval {
                let end = (right - left) / 6.0;
                for [from, to] in [
                    [(middle, low), (middle, high)],
                    [(middle - end, low), (middle + end, low)],
                    [(middle - end, high), (middle + end, high)],
                ] {
                    let ends = [from, to].map(|(x, y)| (frame.x(x), frame.y(y)));
                    svg.polyline(&ends, 1, ENDS);
                }
            }
            if self.stacked {
                continue;
            }
            let (lowest, highest) = bar.extremes();
            let is_below = bar.values.1 < 0.0;
            let (at, away) = if is_below { (lowest, 3) } else { (highest, -3) };
            let (place, text) = ((frame.x(middle), frame.y(at) + away), bar.text());
            match (are_upright, is_below) {
                (false, false) => svg.text(place, ABOVE, LABEL.0, &text),
                (false, true) => svg.text(place, BELOW, LABEL.0, &text),
                (true, false) => svg.upright(place, RIGHT, LABEL.0, &text),
                (true, true) => svg.upright(place, LEFT, LABEL.0, &text),
            }
        }
    }

    /// Writes the names of groups below the chart.
    fn name_groups(&self, svg: &mut Svg, frame: &Frame, group: f64) {
        let words = self.labels.iter().flat_map(|label| label.split([' ', '-', '+']));
        let longest = words.map(|word| word.chars().count()).max().unwrap_or(0);
        // If the longest word is too wide, the names are written in a smaller size.
        let sizes = [(LABEL.0, 5.94), (7.5, 4.86), (7.0, 4.32)];
        let letters = |wide: f64| (group / wide) as usize;
        let fitting = sizes.into_iter().find(|(_, wide)| longest <= letters(*wide));
        let (size, wide) = fitting.unwrap_or(sizes[2]);
        for (at, label) in self.labels.iter().enumerate() {
            let (x, mut y) = (frame.x(at as f64 + 0.5), frame.vertical.0 + 1);
            for line in wrapped(label, letters(wide)) {
                svg.text((x, y + 8), BELOW, size, &line);
                y += 14;
            }
        }
    }
}

/// The colour of the lines that show intervals.
const ENDS: Colour = "#282828";

impl Bar {
    /// Returns the text of the bar's value.
    fn text(&self) -> String {
        if self.is_published { tick(self.values.1) } else { whole_or_digits(self.values.1) }
    }

    /// Returns the lowest and the highest value of the bar and its interval.
    fn extremes(&self) -> (f64, f64) {
        let (from, to) = self.values;
        let [low, high] = self.interval.unwrap_or([to, to]);
        (from.min(to).min(low), from.max(to).max(high))
    }
}

/// Returns the range of the vertical axis, including space for the values above and below the bars.
fn range(bars: &[Bar]) -> Range<f64> {
    let extremes = || bars.iter().map(Bar::extremes);
    let low = extremes().map(|(low, _)| low).fold(0.0, f64::min);
    let high = extremes().map(|(_, high)| high).fold(0.0, f64::max);
    let Range { start, end } = span(low, high);
    let room = (end - start) * 0.08;
    let below = if low < 0.0 { room } else { 0.0 };
    start - below..if high > 0.0 { end + room } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::chart::{COLOURS, Picture};

    fn svg(bars: &Bars) -> String {
        crate::measure::chart::draw(&[Picture::Bars(bars.clone())])
    }

    fn bars(values: &[&[Option<f64>]]) -> Bars {
        let name = |at: usize| format!("series {at}");
        Bars {
            labels: vec!["a <b>".to_owned(), "c".to_owned()],
            series: values.iter().enumerate().map(|(at, of)| (name(at), of.to_vec())).collect(),
            ..Bars::default()
        }
    }

    #[test]
    fn bars_of_a_group_have_no_gaps_between_them() {
        let of = bars(&[&[Some(1.0), None], &[None, Some(2.0)], &[Some(3.0), Some(4.0)]]);
        let layout = of.layout();
        let left: Vec<f64> = layout.iter().map(|bar| bar.edges.0 - bar.edges.0.floor()).collect();
        assert!((left[0] - left[2]).abs() < 1e-9 && (left[1] - left[3]).abs() < 1e-9, "{left:?}");
        let middle = f64::midpoint(layout[0].edges.0, layout[1].edges.1);
        assert!((middle - 0.5).abs() < 1e-9, "{middle}");
        // The height of a stack is the sum of its bars.
        let stacked = Bars { stacked: true, ..of };
        assert_eq!(stacked.layout()[1].values, (1.0, 4.0));
        assert!(svg(&stacked).contains(">a &lt;b&gt;<"));
        svg(&Bars::default());
    }

    #[test]
    fn negative_bars_are_below_the_axis() {
        let of = bars(&[&[Some(12.0), Some(-95.6)]]);
        let range = range(&of.layout());
        assert!(range.start < -95.6 && range.end > 12.0, "{range:?}");
        assert!(svg(&of).contains("-95.6"));
    }

    #[test]
    fn published_figures_have_their_own_digits() {
        let mut of = bars(&[&[Some(0.03), Some(159.2)], &[Some(0.03), Some(159.2)]]);
        of.others = 1;
        let texts: Vec<String> = of.layout().iter().map(Bar::text).collect();
        assert_eq!(texts, ["0.03", "0.0300", "159.2", "159"]);
    }

    #[test]
    fn groups_have_names_instead_of_ticks() {
        let text = svg(&bars(&[&[Some(1000.0), Some(2000.0)]]));
        assert!(!text.contains(">0.5<") && !text.contains(">1.5<"), "{text}");
    }

    #[test]
    fn narrow_bars_have_upright_figures() {
        let few = bars(&[&[Some(1.25), Some(2.5)]]);
        let many: Vec<&[Option<f64>]> = vec![&[Some(10.25), Some(20.5)]; 20];
        let rotated = |bars: &Bars| {
            let text = svg(bars);
            text.matches("rotate(270").count()
        };
        assert_eq!(rotated(&bars(&many)) - rotated(&few), 40);
    }

    #[test]
    fn values_of_others_are_grey() {
        let mut of = bars(&[&[Some(1.0), Some(2.0)], &[Some(1.0), Some(2.0)]]);
        of.others = 1;
        let colours: Vec<Colour> = of.colours().take(2).collect();
        assert_eq!(colours, [GREYS[0], COLOURS[0]]);
    }

    #[test]
    fn intervals_are_within_the_picture() {
        let mut of = bars(&[&[Some(1.0), Some(2.0)]]);
        let lines = |of: &Bars| svg(of).matches("stroke=\"#282828\" points").count();
        assert_eq!(lines(&of), 0);
        of.intervals = vec![vec![Some([0.5, 5.0])]];
        assert!(range(&of.layout()).end > 5.0);
        assert_eq!(lines(&of), 3);
    }
}
