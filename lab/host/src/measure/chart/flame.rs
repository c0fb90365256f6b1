//! Flame graphs of sampled stacks, in which the width of a function is the number of samples of the function and its
//! callees.

use crate::measure::chart::legend::{self, Entry, Sign};
use crate::measure::chart::{Area, COLOURS, Error, colours};
use plotters::prelude::{Color, IntoFont, RGBColor, Rectangle, Text, TextStyle, WHITE};
use std::collections::BTreeMap;

/// The maximum height of a function, in pixels.
const ROW: u32 = 15;

/// The width of a letter in function names, in pixels.
const LETTER: f64 = 5.4;

/// The colour of functions that are in no class.
const PLAIN: RGBColor = RGBColor(215, 215, 205);

/// A flame graph.
#[derive(Debug, Clone, Default)]
pub struct Flame {
    /// The heading.
    pub title: String,
    /// The sampled stacks, each with its number of samples. The outermost function of a stack comes first.
    pub stacks: Vec<(Vec<String>, u64)>,
    /// The classes by which functions are coloured. A class is a name for the legend, and
    /// substrings of function names. All callees of a matching function have the same colour,
    /// except callees that match an earlier class.
    pub classes: Vec<(String, Vec<String>)>,
}

/// A function, called through a certain chain of callers.
#[derive(Debug, Default)]
struct Node {
    samples: u64,
    calls: BTreeMap<String, Node>,
}

impl Node {
    fn of(stacks: &[(Vec<String>, u64)]) -> Self {
        let mut root = Self::default();
        for (stack, samples) in stacks {
            root.samples += samples;
            let mut at = &mut root;
            for function in stack {
                at = at.calls.entry(function.clone()).or_default();
                at.samples += samples;
            }
        }
        root
    }

    fn depth(&self) -> u32 {
        self.calls.values().map(|call| call.depth() + 1).max().unwrap_or(0)
    }
}

impl Flame {
    pub(crate) fn draw(&self, area: &Area<'_>) -> Result<(), Error> {
        let root = Node::of(&self.stacks);
        if root.samples == 0 {
            return Ok(());
        }
        let entries: Vec<Entry<'_>> = self
            .classes
            .iter()
            .zip(colours())
            .map(|((name, _), colour)| Entry { name, colour, sign: Sign::Box })
            .collect();
        let area = legend::beside(area, &entries)?;
        let title = TextStyle::from(("sans-serif", 20).into_font());
        let area = area.titled(&self.title, title)?.margin(0, 8, 12, 12);
        let (width, height) = area.dim_in_pixel();
        let row = (height / root.depth().max(1)).clamp(1, ROW);
        let place =
            Place { left: 0.0, bottom: height, row, scale: f64::from(width) / root.samples as f64 };
        self.draw_calls(&area, &root, place, None)
    }

    /// Draws the callees of a function, side by side above it.
    fn draw_calls(
        &self,
        area: &Area<'_>,
        node: &Node,
        mut place: Place,
        class: Option<usize>,
    ) -> Result<(), Error> {
        for (name, call) in &node.calls {
            let width = call.samples as f64 * place.scale;
            // Skip functions that are too narrow to be visible.
            if width >= 0.3 && place.bottom >= place.row {
                let class = match (class, self.class(name)) {
                    (Some(caller), Some(own)) => Some(caller.min(own)),
                    (caller, own) => caller.or(own),
                };
                let colour = class.map_or(PLAIN, |class| COLOURS[class % COLOURS.len()]);
                place.draw(area, name, width, colour)?;
                let above = Place { bottom: place.bottom - place.row, ..place };
                self.draw_calls(area, call, above, class)?;
            }
            place.left += width;
        }
        Ok(())
    }

    fn class(&self, function: &str) -> Option<usize> {
        let is_in = |parts: &Vec<String>| parts.iter().any(|part| function.contains(part.as_str()));
        self.classes.iter().position(|(_, parts)| is_in(parts))
    }
}

/// The position of a function, in pixels.
#[derive(Debug, Clone, Copy)]
struct Place {
    left: f64,
    bottom: u32,
    row: u32,
    /// The width of one sample, in pixels.
    scale: f64,
}

impl Place {
    fn draw(self, area: &Area<'_>, name: &str, width: f64, colour: RGBColor) -> Result<(), Error> {
        let pixel = |value: f64| value.round() as i32;
        let (left, right) = (pixel(self.left), pixel(self.left + width));
        let (top, bottom) = ((self.bottom - self.row).cast_signed(), self.bottom.cast_signed());
        // If the box is wide enough, leave a gap on each side.
        let gap = i32::from(right - left > 2);
        let corners = [(left, top + 1), ((right - gap).max(left), bottom)];
        area.draw(&Rectangle::new(corners, colour.mix(0.75).filled()))?;
        let letters = ((width - 4.0) / LETTER).max(0.0) as usize;
        if letters >= 4 && self.row >= 8 {
            let short: String = match name.chars().count() {
                count if count > letters => name.chars().take(letters - 1).chain(['…']).collect(),
                _ => name.to_owned(),
            };
            let style = TextStyle::from(("sans-serif", (self.row - 3).min(11)).into_font());
            let style = if is_dark(colour) { style.color(&WHITE) } else { style };
            area.draw(&Text::new(short, (left + 2, top + 2), style))?;
        }
        Ok(())
    }
}

/// Returns whether black text is hard to read on this colour.
fn is_dark(RGBColor(red, green, blue): RGBColor) -> bool {
    u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue) < 900
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::chart::{Picture, draw};

    fn stack(functions: &[&str], samples: u64) -> (Vec<String>, u64) {
        (functions.iter().map(|name| (*name).to_owned()).collect(), samples)
    }

    #[test]
    fn functions_are_as_wide_as_their_samples() {
        let stacks = vec![
            stack(&["run", "mount"], 3),
            stack(&["run", "mount", "lock"], 5),
            stack(&["run"], 2),
        ];
        let root = Node::of(&stacks);
        assert_eq!((root.samples, root.depth()), (10, 3));
        let run = &root.calls["run"];
        assert_eq!((run.samples, run.calls["mount"].samples), (10, 8));
        let classes = vec![("mounts".to_owned(), vec!["mount".to_owned()])];
        let flame = Flame { title: "a <burst>".to_owned(), stacks, classes };
        assert_eq!((flame.class("do_mount"), flame.class("run")), (Some(0), None));
        let text = draw(&[Picture::Flame(flame)]).expect("drawn");
        for word in ["run", "mount", "lock", "mounts", "a &lt;burst&gt;"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn text_is_readable_on_all_colours() {
        assert!(is_dark(RGBColor(68, 68, 68)) && is_dark(RGBColor(84, 39, 136)));
        assert!(!is_dark(RGBColor(86, 180, 233)) && !is_dark(PLAIN));
    }

    #[test]
    fn nothing_is_a_flame_too() {
        assert!(draw(&[Picture::Flame(Flame::default())]).is_ok());
    }
}
