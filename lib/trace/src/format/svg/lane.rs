//! A lane of the picture: the positions of a row's boxes, and the texts inside and below them.

use alloc::string::String;
use alloc::vec::Vec;

use super::label::{LABEL, Labels, fit, width};
use super::scale::{Px, Scale};
use crate::critical::order;
use crate::format::nest::places;
use crate::format::text::step;
use crate::{Row, Span};

/// The height of a box, including the gap below it, in pixels.
pub const LEVEL: u64 = 24;
/// The height of the line for the critical path, including the gaps above and below it, in pixels.
pub const PATH: u64 = 9;
/// The height of a line of labels, in pixels.
pub const LINE: u64 = 14;
/// The space between rows, for arrows, in pixels.
pub const GAP: u64 = 26;
/// The font size of texts in boxes and below them.
pub const SMALL: u64 = 11;

/// A row as it is drawn.
pub struct Lane<'a> {
    /// The row.
    pub row: &'a Row,
    /// The vertical position of the topmost boxes, in pixels.
    pub top: u64,
    /// The level of each span's box, counted from the top.
    level: Vec<usize>,
    levels: usize,
    /// The labels below the boxes.
    pub labels: Labels,
}

impl<'a> Lane<'a> {
    /// Lays out the boxes and labels of a row; no label may be placed in the `taken` ranges.
    pub fn new(row: &'a Row, scale: &Scale, top: u64, taken: Vec<(u64, u64)>) -> Self {
        let places = places(row);
        // The level at which each of the row's span lanes begins.
        let mut first: Vec<usize> = Vec::new();
        let mut levels = 0;
        for lane in 0..=places.iter().map(|place| place.lane).max().unwrap_or(0) {
            first.push(levels);
            let depths = places.iter().filter(|place| place.lane == lane).map(|place| place.depth);
            levels += depths.max().unwrap_or(0) + 1;
        }
        let level = |lane: usize| first.get(lane).copied().unwrap_or(0);
        let level = places.iter().map(|place| level(place.lane) + place.depth).collect();
        let mut lane =
            Self { row, top, level, levels, labels: Labels { taken, ..Labels::default() } };
        lane.label(scale);
        lane
    }

    /// Places labels for spans whose boxes are too narrow for their names. Failed spans come first, then work, then
    /// waits; in each of these groups, the longest span comes first.
    fn label(&mut self, scale: &Scale) {
        let spans = &self.row.spans;
        let rank = |index: usize| {
            let span = spans.get(index)?;
            Some((span.errno != 0, span.wait.is_none(), span.took()))
        };
        for index in order(spans.len(), &|a, b| rank(b).cmp(&rank(a))) {
            let Some(span) = spans.get(index) else { continue };
            let (from, to) = scale.room(span.start, span.end);
            let (leader, failed) = ((from.0 + to.0) / 2, span.errno != 0);
            // Boxes narrower than two pixels get no label, so that there is room for more useful labels.
            if to.0 < from.0 + 20 && !failed
                || within(span, scale).is_some()
                || self.is_covered(index, leader, scale)
            {
                continue;
            }
            let whole = fit(&step(span), LABEL, if failed { 4000 } else { 1500 });
            let name = fit(&span.name, LABEL, 1500);
            for text in [whole, name].into_iter().flatten() {
                if self.labels.place(index, leader, text) {
                    break;
                }
            }
        }
    }

    /// Returns whether another box would cover the leader line from a box down to its label.
    fn is_covered(&self, index: usize, leader: u64, scale: &Scale) -> bool {
        let Some(level) = self.level.get(index).filter(|level| *level + 1 < self.levels) else {
            return false;
        };
        let mut others = self.row.spans.iter().zip(&self.level);
        others.any(|(other, below)| {
            below > level && (scale.x(other.start).0..=scale.x(other.end).0).contains(&leader)
        })
    }

    /// Returns the top of a span's box.
    pub fn box_top(&self, index: usize) -> u64 {
        self.top + self.level.get(index).copied().unwrap_or(0) as u64 * LEVEL
    }

    /// Returns the bottom of the lowest box.
    pub fn boxes_end(&self) -> u64 {
        self.top + self.levels as u64 * LEVEL
    }

    fn labels_end(&self) -> u64 {
        self.boxes_end() + PATH + self.labels.lines() as u64 * LINE
    }

    /// Returns the height of the lane, including the gap below it.
    pub fn height(&self) -> u64 {
        self.labels_end() - self.top + GAP
    }
}

/// Returns the text in a span's box and its position; `None` if no useful text fits. The text does not cover the period
/// that the time axis shortens ([`Scale::quiet`]).
pub fn within(span: &Span, scale: &Scale) -> Option<(Px, String)> {
    let (from, to) = scale.room(span.start, span.end);
    let room = (to.0 - from.0).saturating_sub(80);
    let start = Px(from.0 + 40);
    let whole = step(span);
    if width(&whole, SMALL) <= room {
        return Some((start, whole));
    }
    let short = fit(&whole, SMALL, room)?;
    // The name alone is better than the name followed by one or two letters of the object.
    let name = span.name.chars().count();
    match short.chars().count() {
        length if length > name + 3 => Some((start, short)),
        _ if width(&span.name, SMALL) <= room => fit(&span.name, SMALL, room).map(|n| (start, n)),
        length => (length > 6).then_some((start, short)),
    }
}
