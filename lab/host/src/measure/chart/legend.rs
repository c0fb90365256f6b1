//! The legend, which is drawn to the right of the picture.

use crate::measure::chart::{Area, Error};
use plotters::prelude::{
    Circle, Color, IntoFont, PathElement, RGBColor, Rectangle, Text, TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The maximum number of letters in a line.
const LETTERS: usize = 24;
/// The height of a line, in pixels.
const LINE: i32 = 17;

/// An entry of the legend: a name, and its symbol in the picture.
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub colour: RGBColor,
    pub sign: Sign,
}

/// The symbol of a legend entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Line,
    Dot,
    Box,
    /// A vertical line that marks a value on the horizontal axis.
    Upright,
}

/// Draws the legend at the right edge of the area; returns the remaining area.
pub(crate) fn beside<'a>(area: &Area<'a>, entries: &[Entry]) -> Result<Area<'a>, Error> {
    let lines = entries.iter().flat_map(|entry| wrapped(entry.name, LETTERS));
    let Some(longest) = lines.map(|line| line.chars().count()).max() else {
        return Ok(area.clone());
    };
    let wide = i32::try_from(longest).unwrap_or(i32::MAX).saturating_mul(7).saturating_add(48);
    let (width, _) = area.dim_in_pixel();
    let width = i32::try_from(width).unwrap_or(i32::MAX);
    let (picture, legend) = area.split_horizontally(width.saturating_sub(wide).max(width / 2));
    let style =
        TextStyle::from(("sans-serif", 12).into_font()).pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = 44;
    for entry in entries {
        let colour = entry.colour;
        match entry.sign {
            Sign::Box => legend.draw(&Rectangle::new([(4, y - 5), (16, y + 5)], colour.filled())),
            Sign::Dot => legend.draw(&Circle::new((10, y), 4, colour.filled())),
            Sign::Line => legend.draw(&PathElement::new([(2, y), (18, y)], colour.stroke_width(3))),
            Sign::Upright => {
                legend.draw(&PathElement::new([(10, y - 6), (10, y + 6)], colour.stroke_width(2)))
            }
        }?;
        for line in wrapped(entry.name, LETTERS) {
            legend.draw(&Text::new(line, (24, y), style.clone()))?;
            y += LINE;
        }
    }
    Ok(picture)
}

/// Wraps a text into lines of this many letters. A line ends after a blank or a hyphen, or within a word that is longer
/// than a line.
pub(crate) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let letters = letters.max(4);
    let mut lines = vec![String::new()];
    for word in text.split_inclusive([' ', '-', '+']) {
        let mut word = word.to_owned();
        while let Some(line) = lines.last_mut() {
            let used = line.chars().count();
            if used + word.trim_end().chars().count() <= letters {
                line.push_str(&word);
                break;
            }
            if used == 0 {
                let rest = word.chars().skip(letters).collect();
                line.extend(word.chars().take(letters));
                word = rest;
            }
            lines.push(String::new());
        }
    }
    lines
        .into_iter()
        .map(|line| line.trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_no_longer_than_they_may() {
        assert_eq!(wrapped("template-namespace", 10), ["template-", "namespace"]);
        assert_eq!(wrapped("one at a time", 8), ["one at a", "time"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 10), Vec::<String>::new());
    }
}
