//! Flame graphs of sampled stacks, in which the width of a function is the number of samples of the function and its
//! callees.

use crate::measure::chart::legend::{self, Entry, Sign};
use crate::measure::chart::svg::{Area, BELOW, Colour, RIGHT_BELOW, Svg};
use crate::measure::chart::{COLOURS, colours};
use std::collections::BTreeMap;

/// The maximum height of a function, in pixels.
const ROW: i32 = 15;

/// The width of a letter in function names, in pixels.
const LETTER: f64 = 5.4;

/// The colour of functions that are in no class.
const PLAIN: Colour = "#D7D7CD";

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

    fn depth(&self) -> i32 {
        self.calls.values().map(|call| call.depth() + 1).max().unwrap_or(0)
    }
}

impl Flame {
    pub(crate) fn draw(&self, svg: &mut Svg, area: Area) {
        let root = Node::of(&self.stacks);
        if root.samples == 0 {
            return;
        }
        let classes = self.classes.iter().zip(colours());
        let entries: Vec<Entry<'_>> =
            classes.map(|((name, _), colour)| Entry { name, colour, sign: Sign::Box }).collect();
        let area = legend::beside(svg, area, &entries);
        svg.text((area.x + area.width / 2, area.y + 5), BELOW, 18.0, &self.title);
        let row = ((area.height - 34) / root.depth().max(1)).clamp(1, ROW);
        let scale = f64::from(area.width - 24) / root.samples as f64;
        let mut frames = Frames { svg, area, row, scale, outlines: Vec::new() };
        self.draw_calls(&mut frames, &root, (0.0, area.y + area.height - 8), None);
        frames.flush();
    }

    /// Draws the callees of a function, side by side above it: from the place `left` on, above the pixel `bottom`.
    fn draw_calls(
        &self,
        frames: &mut Frames<'_>,
        node: &Node,
        (mut left, bottom): (f64, i32),
        class: Option<usize>,
    ) {
        for (name, call) in &node.calls {
            let width = call.samples as f64 * frames.scale;
            // Skip functions that are too narrow to be visible.
            let top = bottom - frames.row;
            if width >= 1.0 && top >= frames.area.y + 26 {
                let class = match (class, self.class(name)) {
                    (Some(caller), Some(own)) => Some(caller.min(own)),
                    (caller, own) => caller.or(own),
                };
                let colour = class.map_or(PLAIN, |class| COLOURS[class % COLOURS.len()]);
                frames.draw((left, top), name, width, colour);
                self.draw_calls(frames, call, (left, top), class);
            }
            left += width;
        }
    }

    fn class(&self, function: &str) -> Option<usize> {
        let is_in = |parts: &Vec<String>| parts.iter().any(|part| function.contains(part.as_str()));
        self.classes.iter().position(|(_, parts)| is_in(parts))
    }
}

/// The functions of a picture.
struct Frames<'a> {
    svg: &'a mut Svg,
    area: Area,
    /// The height of a function, in pixels.
    row: i32,
    /// The width of one sample, in pixels.
    scale: f64,
    /// The outlines that are not drawn yet. Neighbouring functions of a colour are one element.
    outlines: Vec<(Colour, String)>,
}

impl Frames<'_> {
    fn draw(&mut self, (left, top): (f64, i32), name: &str, width: f64, colour: Colour) {
        let pixel = |value: f64| self.area.x + 12 + value.round() as i32;
        let (left, right) = (pixel(left), pixel(left + width));
        // If the box is wide enough, leave a gap on each side.
        let wide = (right - i32::from(right - left > 2) - left).max(0);
        let (top, high) = (top + 1, self.row - 1);
        let outline = format!("M{left} {top}h{wide}v{high}h-{wide}z");
        match self.outlines.iter_mut().find(|(of, _)| *of == colour) {
            Some((_, outlines)) => outlines.push_str(&outline),
            None => self.outlines.push((colour, outline)),
        }
        let letters = ((width - 4.0) / LETTER).max(0.0) as usize;
        if letters >= 4 && self.row >= 8 {
            let short: String = match name.chars().count() {
                count if count > letters => name.chars().take(letters - 1).chain(['…']).collect(),
                _ => name.to_owned(),
            };
            self.flush();
            let size = f64::from((self.row - 3).min(10));
            let more = if is_dark(colour) { " fill=\"#FFFFFF\"" } else { "" };
            self.svg.words((left + 2, top + 1), RIGHT_BELOW, size, more, &short);
        }
    }

    fn flush(&mut self) {
        for (colour, outlines) in self.outlines.drain(..) {
            self.svg.path(&outlines, colour);
        }
    }
}

/// Returns whether black text is hard to read on this colour.
fn is_dark(colour: Colour) -> bool {
    let number = u32::from_str_radix(&colour[1..], 16).unwrap_or(0);
    let [_, red, green, blue] = number.to_be_bytes().map(u32::from);
    red * 3 + green * 6 + blue < 900
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
        let text = draw(&[Picture::Flame(flame)]);
        for word in ["run", "mount", "lock", "mounts", "a &lt;burst&gt;"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn text_is_readable_on_all_colours() {
        assert!(is_dark(COLOURS[6]) && is_dark(COLOURS[10]));
        assert!(!is_dark(COLOURS[5]) && !is_dark(PLAIN));
    }

    #[test]
    fn nothing_is_a_flame_too() {
        assert!(!draw(&[Picture::Flame(Flame::default())]).contains("<text"));
    }
}
