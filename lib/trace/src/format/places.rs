//! Positions of nested spans in a drawing of a row.

use alloc::vec;
use alloc::vec::Vec;

use crate::Row;
use crate::critical::order;

/// The position of a span in the drawing. Two spans in the same lane are either nested or disjoint.
/// A span that begins during another span and ends after it, which is possible with threads, is
/// drawn in the next lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The index of the lane; most rows have only one lane.
    pub lane: usize,
    /// The span's nesting depth in the lane.
    pub depth: usize,
}

/// Returns the position of each span of a row.
pub fn places(row: &Row) -> Vec<Place> {
    let times = |index: usize| {
        row.spans.get(index).map_or((0, 0), |span| (span.start, span.end.max(span.start)))
    };
    let order = order(row.spans.len(), &|a, b| {
        let (a, b) = (times(a), times(b));
        (a.0, b.1).cmp(&(b.0, a.1))
    });
    let mut places = vec![Place::default(); row.spans.len()];
    // The end times of the open spans, per lane.
    let mut lanes: Vec<Vec<u64>> = Vec::new();
    for index in order {
        let (start, end) = times(index);
        let lane = lanes.iter_mut().position(|open| {
            while open.last().is_some_and(|&last| last <= start) {
                open.pop();
            }
            open.last().is_none_or(|&last| end <= last)
        });
        let lane = lane.unwrap_or_else(|| {
            lanes.push(Vec::new());
            lanes.len() - 1
        });
        if let (Some(open), Some(place)) = (lanes.get_mut(lane), places.get_mut(index)) {
            *place = Place { lane, depth: open.len() };
            open.push(end);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    #[test]
    fn spans_lie_within_each_other_or_in_another_lane() {
        let times = [(0, 10), (2, 5), (3, 4), (5, 10), (8, 12), (10, 11), (12, 13)];
        let spans = times.map(|(start, end)| Span { start, end, ..Span::default() });
        let places = places(&Row { spans: spans.into(), ..Row::default() });
        let told: Vec<_> = places.iter().map(|place| (place.lane, place.depth)).collect();
        assert_eq!(told, [(0, 0), (0, 1), (0, 2), (0, 1), (1, 0), (0, 0), (0, 0)]);
    }
}
