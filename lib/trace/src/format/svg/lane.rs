//! A lane of the picture: the positions of a row's boxes, and the texts inside and below them.

use alloc::string::String;
use alloc::vec::Vec;

use super::scale::{MARGIN, Px, Scale, WIDTH};
use crate::critical::order;
use crate::format::places::places;
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

/// The maximum number of label lines below a row.
const LINES: usize = 5;
/// The font size of labels.
pub const LABEL: u64 = 10;
/// The distance from the leader line to the text, in tenths of a pixel.
const NEAR: u64 = 30;
/// The right edge up to which texts may extend, in tenths of a pixel.
const EDGE: u64 = (WIDTH - MARGIN / 2) * 10;
/// The minimum distance between labels, and from labels to arrows, in tenths of a pixel.
const APART: u64 = 50;

/// Estimates the width of a text in tenths of a pixel. The estimate errs on the high side, because fonts differ.
pub fn width(text: &str, size: u64) -> u64 {
    let letters = text.chars().map(|letter| match letter {
        'i' | 'j' | 'l' | 'f' | 't' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '/' | '\''
        | '|' | '!' | '(' | ')' | '[' | ']' | '-' => 42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 98,
        'A'..='Z' => 72,
        letter if letter.is_ascii() => 63,
        _ => 105,
    });
    letters.sum::<u64>() * size / 10
}

/// Returns a text, shortened if necessary to fit in `room` tenths of a pixel. Returns `None` if fewer than four
/// characters would be left.
pub fn fit(text: &str, size: u64, room: u64) -> Option<String> {
    if width(text, size) <= room {
        return Some(text.into());
    }
    let mut short: String = text.into();
    while short.pop().is_some() {
        if width(&short, size) + width("…", size) <= room {
            break;
        }
    }
    let short = short.trim_end();
    // A shorter text would not be useful.
    (short.chars().count() >= 4).then(|| alloc::format!("{short}…"))
}

/// A label below a row, with a leader line up to its box.
pub struct Label {
    /// The index of the label's span in the row.
    pub span: usize,
    /// The line of labels in which the label is placed.
    pub line: usize,
    /// The horizontal position of the leader line, in tenths of a pixel.
    pub leader: u64,
    /// The left end of the text, in tenths of a pixel.
    pub start: u64,
    /// The right end of the text, in tenths of a pixel.
    pub end: u64,
    /// The text.
    pub text: String,
}

impl Label {
    fn range(&self) -> (u64, u64) {
        (self.start.min(self.leader), self.end.max(self.leader))
    }

    fn meets(&self, other: &Self) -> bool {
        let ((from, to), (left, right)) = (self.range(), other.range());
        from < right + APART && left < to + APART
    }

    /// Returns whether this label's text would cross the other label's leader.
    fn crosses(&self, other: &Self) -> bool {
        let (from, to) = self.range();
        from < other.leader + NEAR && other.leader < to + NEAR
    }
}

/// The labels below a row, which overlap neither each other nor an arrow.
#[derive(Default)]
pub struct Labels {
    /// The placed labels, from right to left.
    pub placed: Vec<Label>,
    /// Ranges in which no label may be placed, such as those of arrows.
    pub taken: Vec<(u64, u64)>,
}

impl Labels {
    /// Places a label if there is room for it. Labels placed earlier have priority, but may be moved to other lines to
    /// make room.
    pub fn place(&mut self, span: usize, leader: u64, text: String) -> bool {
        let width = width(&text, LABEL);
        let start = match leader + NEAR {
            right if right + width <= EDGE => right,
            _ => leader.saturating_sub(width + NEAR),
        };
        let label = Label { span, line: 0, leader, start, end: start + width, text };
        let (from, to) = label.range();
        if self.taken.iter().any(|&(left, right)| left < to + APART && from < right + APART) {
            return false;
        }
        let at = self.placed.partition_point(|other| other.leader > leader);
        self.placed.insert(at, label);
        let lines = self.lay();
        match &lines {
            Some(lines) => {
                for (label, line) in self.placed.iter_mut().zip(lines) {
                    label.line = *line;
                }
            }
            None => {
                self.placed.remove(at);
            }
        }
        lines.is_some()
    }

    /// Returns the line of each label, with the labels ordered from right to left. Each label is in the first line in
    /// which it overlaps no other label, and which is below all labels whose leader lines its text would cross.
    fn lay(&self) -> Option<Vec<usize>> {
        let mut lines: Vec<usize> = Vec::with_capacity(self.placed.len());
        for label in &self.placed {
            let beside = || self.placed.iter().zip(&lines).filter(|(other, _)| label.meets(other));
            let above = beside().filter(|(other, _)| label.crosses(other));
            let first = above.map(|(_, line)| line + 1).max().unwrap_or(0);
            let below = beside().filter(|(other, _)| other.crosses(label));
            let last = below.map(|(_, line)| *line).min().unwrap_or(LINES).min(LINES);
            let free = |line: &usize| beside().all(|(_, other)| other != line);
            lines.push((first..last).find(free)?);
        }
        Some(lines)
    }

    /// Returns the number of lines of labels.
    pub fn lines(&self) -> usize {
        self.placed.iter().map(|label| label.line + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_shortened_to_the_room_there_is() {
        assert_eq!(fit("mount", 11, 1000).as_deref(), Some("mount"));
        assert_eq!(fit("mount tmpfs on /dev", 11, 600).as_deref(), Some("mount t…"));
        assert_eq!(fit("mount", 11, 100), None);
    }

    proptest! {
        #[test]
        fn no_label_is_over_another(
            wanted in proptest::collection::vec((1300u64..13_700, 3usize..30), 0..60)
        ) {
            let mut labels = Labels { taken: vec![(5000, 5100)], ..Labels::default() };
            for (index, (leader, letters)) in wanted.into_iter().enumerate() {
                labels.place(index, leader, "n".repeat(letters));
            }
            for (index, one) in labels.placed.iter().enumerate() {
                prop_assert!(one.end <= 5000 || one.start >= 5100);
                for other in &labels.placed[index + 1..] {
                    prop_assert!(one.line != other.line || one.end < other.start || other.end < one.start);
                    let (high, low) = if one.line < other.line { (one, other) } else { (other, one) };
                    prop_assert!(low.leader < high.start || high.end < low.leader);
                }
            }
        }
    }
}
