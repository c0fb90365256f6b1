//! The time axis: maps times to horizontal positions.

use core::fmt;

use alloc::vec::Vec;

use crate::critical::cuts;
use crate::format::text::{origin, unit};
use crate::{Span, Timeline};

/// A length in tenths of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Px(pub u64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// The width of the picture, in pixels.
pub const WIDTH: u64 = 1400;
/// The margin around the picture's contents, in pixels.
pub const MARGIN: u64 = 24;
/// The left end of the time axis, in tenths of a pixel.
pub const LEFT: u64 = 1300;
/// The length of the axis, in tenths of a pixel.
const LENGTH: u64 = 12_400;
/// The length of the shortened period on the axis, in tenths of a pixel.
const BREAK: u64 = 500;
/// The approximate number of ticks.
const TICKS: u64 = 10;

/// The time axis. A period in which all rows wait, or only the container's program runs, is drawn shortened if it is
/// more than half of the total time. Otherwise the runtime's work would shrink to a line.
pub struct Scale {
    origin: u64,
    end: u64,
    /// The period that is drawn shortened, if any.
    pub quiet: Option<(u64, u64)>,
}

impl Scale {
    /// Returns the axis for a time line.
    pub fn of(timeline: &Timeline) -> Self {
        let origin = origin(timeline);
        let ends = timeline.rows.iter().flat_map(|row| &row.spans).map(|span| span.end);
        let end = ends.max().unwrap_or(0).max(timeline.end()).max(origin);
        let quiet =
            quiet(timeline, (origin, end)).filter(|(from, to)| to - from > (end - origin) / 2);
        // Short parts at the beginning and the end of the quiet period are drawn at full scale.
        let quiet = quiet.and_then(|(from, to)| {
            let margin = ((end - origin) - (to - from)) / 32;
            let (from, to) = (from.saturating_add(margin), to.saturating_sub(margin));
            (from < to).then_some((from, to))
        });
        Self { origin, end, quiet }
    }

    /// Returns the amount of time that is drawn at full scale.
    pub fn shown(&self) -> u64 {
        self.end - self.origin - self.quiet.map_or(0, |(from, to)| to - from)
    }

    /// Returns the horizontal position of a time.
    pub fn x(&self, time: u64) -> Px {
        let time = time.clamp(self.origin, self.end);
        let width = LENGTH - if self.quiet.is_some() { BREAK } else { 0 };
        let full = |from: u64, to: u64| scaled(to - from, self.shown(), width);
        Px(LEFT
            + match self.quiet {
                Some((from, to)) if time >= to => full(self.origin, from) + BREAK + full(to, time),
                Some((from, to)) if time > from => {
                    full(self.origin, from) + scaled(time - from, to - from, BREAK)
                }
                _ => full(self.origin, time),
            })
    }

    /// Returns the longest part between two times that is drawn at full scale.
    pub fn room(&self, start: u64, end: u64) -> (Px, Px) {
        let (from, to) = (self.x(start), self.x(end).max(self.x(start)));
        let Some((quiet, loud)) = self.quiet.map(|(from, to)| (self.x(from), self.x(to))) else {
            return (from, to);
        };
        let before = (from, to.min(quiet.max(from)));
        let after = (from.max(loud.min(to)), to);
        if after.1.0 - after.0.0 > before.1.0 - before.0.0 { after } else { before }
    }

    /// Returns the horizontal position of a time that is relative to the start.
    pub fn x_after(&self, time: u64) -> Px {
        self.x(self.origin.saturating_add(time))
    }

    /// Returns the times of the ticks since the start, in nanoseconds, and the distance between ticks.
    pub fn ticks(&self) -> (Vec<u64>, u64) {
        let wanted = (self.shown() / TICKS).max(1);
        let mut step = 1u64;
        for factor in [2u64, 5, 10].into_iter().cycle() {
            if step >= wanted {
                break;
            }
            // The steps are 1, 2, 5, 10, 20, 50 …
            step = if factor == 5 { step / 2 * 5 } else { step.saturating_mul(2) };
        }
        let total = self.end - self.origin;
        let quiet = self.quiet.map(|(from, to)| (from - self.origin, to - self.origin));
        let mut ticks = Vec::new();
        let mut tick = 0u64;
        while tick <= total {
            match quiet {
                Some((from, to)) if tick > from && tick < to => tick = (to - 1) / step * step,
                _ => ticks.push(tick),
            }
            let Some(next) = tick.checked_add(step) else { break };
            tick = next;
        }
        (ticks, step)
    }

    /// Returns the time from the start to the end of the axis.
    pub fn total(&self) -> u64 {
        self.end - self.origin
    }

    /// Converts a time to the time since the start of the axis.
    pub fn at(&self, time: u64) -> u64 {
        time.saturating_sub(self.origin)
    }
}

/// Returns the longest period in which all rows wait or only the container's program runs.
fn quiet(timeline: &Timeline, (origin, end): (u64, u64)) -> Option<(u64, u64)> {
    let pieces = cuts(timeline).into_iter().flatten();
    let busy = pieces.filter(|piece| piece.span(timeline).is_none_or(Span::is_work));
    let mut busy: Vec<(u64, u64)> = busy.map(|piece| (piece.start, piece.end)).collect();
    busy.sort_unstable();
    let mut longest = None;
    let mut last = origin;
    for (start, stop) in busy.into_iter().chain([(end, end)]) {
        if start > last && longest.is_none_or(|(from, to)| to - from < start - last) {
            longest = Some((last, start));
        }
        last = last.max(stop);
    }
    longest
}

/// Returns `width` × `part` ÷ `whole` without overflow.
fn scaled(part: u64, whole: u64, width: u64) -> u64 {
    let shift = 18u32.saturating_sub(whole.leading_zeros());
    ((part >> shift) * width).checked_div(whole >> shift).unwrap_or(0)
}

/// The label of a time on the axis. All labels have the same unit, and as many decimals as the step between ticks
/// needs.
pub struct Tick {
    /// The time in nanoseconds from the start.
    pub time: u64,
    /// The distance between ticks.
    pub step: u64,
    /// The last time on the axis.
    pub last: u64,
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut unit, name) = unit(self.last);
        write!(f, "{}", self.time / unit)?;
        let (mut time, mut dot) = (self.time % unit, ".");
        while !self.step.is_multiple_of(unit) {
            unit /= 10;
            write!(f, "{dot}{}", time / unit)?;
            (time, dot) = (time % unit, "");
        }
        write!(f, " {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_axis_runs_from_left_to_right(timeline in sample::anything(), times in any::<[u64; 2]>()) {
            let scale = Scale::of(&timeline);
            let (a, b) = (times[0].min(times[1]), times[0].max(times[1]));
            prop_assert!(scale.x(a) <= scale.x(b));
            prop_assert!(scale.x(0).0 >= LEFT && scale.x(u64::MAX).0 <= LEFT + LENGTH);
            let (ticks, _) = scale.ticks();
            prop_assert!(ticks.len() <= usize::try_from(2 * TICKS + 2).unwrap());
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn ticks_have_the_decimals_of_their_step() {
        let tick = |time, step, last| Tick { time, step, last }.to_string();
        assert_eq!(tick(1_500_000, 500_000, 3_000_000), "1500 µs");
        assert_eq!(tick(2_001_500_000, 500_000, 2_003_000_000), "2001.5 ms");
        assert_eq!(tick(500, 250, 1_000), "0.50 µs");
        assert_eq!(tick(0, 1, 0), "0.000 µs");
    }
}
