//! The legend, which is drawn to the right of the picture.

use crate::measure::chart::svg::{Area, Colour, RIGHT, Svg};

/// The maximum number of letters in a line.
const LETTERS: usize = 24;
/// The height of a line, in pixels.
const LINE: i32 = 17;

/// An entry of the legend: a name, and its symbol in the picture.
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub colour: Colour,
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
pub(crate) fn beside(svg: &mut Svg, area: Area, entries: &[Entry]) -> Area {
    let lines = entries.iter().flat_map(|entry| wrapped(entry.name, LETTERS));
    let Some(longest) = lines.map(|line| line.chars().count()).max() else { return area };
    let wide = i32::try_from(longest).unwrap_or(i32::MAX).saturating_mul(7).saturating_add(48);
    let rest = Area { width: area.width.saturating_sub(wide).max(area.width / 2), ..area };
    let (x, mut y) = (rest.x + rest.width, rest.y + 44);
    for &Entry { name, colour, sign } in entries {
        match sign {
            Sign::Box => svg.fill(Area { x: x + 4, y: y - 5, width: 12, height: 10 }, colour, ""),
            Sign::Dot => svg.dot((x + 10, y), 4, colour),
            Sign::Line => svg.polyline(&[(x + 2, y), (x + 18, y)], 3, colour),
            Sign::Upright => svg.polyline(&[(x + 10, y - 6), (x + 10, y + 6)], 2, colour),
        }
        for line in wrapped(name, LETTERS) {
            svg.text((x + 24, y), RIGHT, 12.0, &line);
            y += LINE;
        }
    }
    rest
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
