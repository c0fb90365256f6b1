//! Groups of bars.

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::prelude::{
    Color, IntoDrawingArea, IntoFont, Rectangle, SVGBackend, Text, TextStyle, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::{COLOURS, Error, LIGHT, SIZE, failed, legend_box, number};

/// A picture of bars: a group for each label, in it a bar of each series.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// What stands above it.
    pub title: String,
    /// What was measured, with its unit.
    pub y: String,
    /// The names of the groups.
    pub labels: Vec<String>,
    /// The name of each series, and its value in each group, if it has one there.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl Bars {
    /// Draws it; returns the SVG.
    ///
    /// # Errors
    /// Those of the drawing library.
    pub fn svg(&self) -> Result<String, Error> {
        let values = self.series.iter().flat_map(|(_, values)| values.iter().flatten());
        let highest = values.copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let groups = self.labels.len().max(1) as f64;
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE).map_err(failed)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, ("sans-serif", 20))
                .margin(12)
                .x_label_area_size(32)
                .y_label_area_size(72)
                .build_cartesian_2d(0.0..groups, 0.0..(highest * 1.15).max(1e-9))
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
            let wide = 0.8 / self.series.len().max(1) as f64;
            let above = centred(VPos::Bottom, 11);
            for (at, ((name, values), colour)) in
                self.series.iter().zip(COLOURS.iter().cycle().copied()).enumerate()
            {
                let left = |group: usize| group as f64 + 0.1 + wide * at as f64;
                let shown = values.iter().enumerate().filter_map(|(group, value)| {
                    Some((left(group), value.filter(|value| value.is_finite())?))
                });
                let bar = |(x, value)| {
                    Rectangle::new([(x, 0.0), (x + wide * 0.94, value)], colour.filled())
                };
                chart.draw_series(shown.clone().map(bar)).map_err(failed)?.label(name).legend(
                    move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()),
                );
                let figure = |(x, value): (f64, f64)| {
                    Text::new(number(&value), (x + wide * 0.47, value), above.clone())
                };
                chart.draw_series(shown.map(figure)).map_err(failed)?;
            }
            for (group, label) in self.labels.iter().enumerate() {
                let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 + 0.5, 0.0));
                let below = centred(VPos::Top, 13);
                area.draw(&Text::new(label.as_str(), (x, y + 8), below)).map_err(failed)?;
            }
            legend_box(&mut chart, SeriesLabelPosition::UpperRight)?;
            area.present().map_err(failed)?;
        }
        Ok(text)
    }
}

fn centred(place: VPos, size: u32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(HPos::Center, place))
}
