//! Charts of grouped bars.

use crate::legend::{self, Entry, Sign, wrapped};
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::prelude::{
    Color, DrawingArea, DrawingBackend, IntoFont, Rectangle, Text, TextStyle, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::{COLOURS, Error, LIGHT, below_each_other, failed, number};

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
    /// Whether the bars of a group are stacked instead of side by side.
    pub stacked: bool,
}

impl Bars {
    /// Renders the chart as SVG.
    ///
    /// # Errors
    /// Errors of the drawing library.
    pub fn svg(&self) -> Result<String, Error> {
        below_each_other(std::slice::from_ref(self), |bars, area| bars.draw(area))
    }

    /// Returns the height of the highest bar or, if bars are stacked, of the highest stack.
    fn highest(&self) -> f64 {
        let values = |group: usize| {
            let of_group = self.series.iter().map(move |(_, values)| values.get(group));
            of_group.filter_map(|value| *value?).filter(|value| value.is_finite())
        };
        let height = |group| match self.stacked {
            true => values(group).sum(),
            false => values(group).fold(0.0, f64::max),
        };
        (0..self.labels.len()).map(height).fold(0.0, f64::max)
    }

    pub(crate) fn draw<D: DrawingBackend>(
        &self,
        area: &DrawingArea<D, Shift>,
    ) -> Result<(), Error> {
        let groups = self.labels.len().max(1) as f64;
        let colours = || COLOURS.iter().cycle().copied();
        let entries: Vec<Entry> = self
            .series
            .iter()
            .zip(colours())
            .map(|((name, _), colour)| Entry { name, colour, sign: Sign::Box })
            .collect();
        let area = legend::beside(area, &entries)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(64)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..groups, 0.0..(self.highest() * 1.15).max(1e-9))
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_desc(&self.y)
            .bold_line_style(LIGHT)
            .light_line_style(WHITE)
            .y_label_formatter(&number)
            .draw()
            .map_err(failed)?;
        let beside = if self.stacked { 1 } else { self.series.len().max(1) };
        let wide = 0.8 / beside as f64;
        let mut floors = vec![0.0; self.labels.len()];
        for (at, ((_, values), colour)) in self.series.iter().zip(colours()).enumerate() {
            for (group, value) in values.iter().enumerate() {
                let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                let place = if self.stacked { 0 } else { at };
                let left = group as f64 + 0.1 + wide * place as f64;
                let floor = match floors.get_mut(group) {
                    Some(floor) if self.stacked => {
                        *floor += value;
                        *floor - value
                    }
                    _ => 0.0,
                };
                let corners = [(left, floor), (left + wide * 0.94, floor + value)];
                chart.draw_series([Rectangle::new(corners, colour.filled())]).map_err(failed)?;
                if !self.stacked {
                    let above = centred(VPos::Bottom, 11);
                    let figure = Text::new(number(&value), (left + wide * 0.47, value), above);
                    chart.draw_series([figure]).map_err(failed)?;
                }
            }
        }
        let letters = (chart.plotting_area().dim_in_pixel().0 as f64 / groups / 5.8) as usize;
        // The coordinates of Plotters are absolute, but drawing on a sub-area is relative to the corner of the
        // sub-area.
        let (left, top) = area.get_base_pixel();
        for (group, label) in self.labels.iter().enumerate() {
            let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 + 0.5, 0.0));
            let (x, mut y) = (x - left, y - top);
            for line in wrapped(label, letters) {
                let below = centred(VPos::Top, 11);
                y += 8;
                area.draw(&Text::new(line, (x, y), below)).map_err(failed)?;
                y += 8;
            }
        }
        Ok(())
    }
}

fn centred(place: VPos, size: u32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(HPos::Center, place))
}
