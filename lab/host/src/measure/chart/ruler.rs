//! Axes with ticks at round numbers.

use crate::measure::chart::Scale;
use std::ops::Range;

/// The maximum number of ticks on an axis.
const MOST: usize = 9;
/// The minimum number of ticks; an axis with fewer ticks cannot be read.
const FEWEST: usize = 3;

/// The ticks within a decade of a logarithmic axis, in order of decreasing density.
const DECADES: [&[f64]; 5] = [
    &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    &[1.0, 2.0, 3.0, 5.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 3.0],
    &[1.0],
];

/// An axis: its scale, its range and its ticks.
#[derive(Debug, Clone)]
pub(crate) struct Ruler {
    scale: Scale,
    range: Range<f64>,
    pub(crate) ticks: Vec<f64>,
}

impl Ruler {
    /// Makes an axis of this range, with ticks at round numbers.
    pub(crate) fn new(scale: Scale, range: Range<f64>) -> Self {
        let ticks = match scale {
            Scale::Linear => round(&range),
            Scale::Logarithmic => logarithmic(&range),
        };
        Self { scale, range, ticks }
    }

    /// Makes an axis that shows these values; `None` if there are no values. A logarithmic axis of
    /// a few whole numbers, such as numbers of starts in flight, has its ticks at these numbers.
    pub(crate) fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = (*values.first()?, *values.last()?);
        let range = match scale {
            Scale::Linear => span(low, high),
            Scale::Logarithmic => low / 1.2..high * 1.5,
        };
        let mut ruler = Self::new(scale, range);
        let are_whole = values.iter().all(|value| value.fract() == 0.0);
        let are_apart = values.windows(2).all(|both| both[1] >= both[0] * 1.2);
        let are_few = (2..=MOST).contains(&values.len());
        if scale == Scale::Logarithmic && are_whole && are_apart && are_few {
            ruler.ticks = values;
        }
        Some(ruler)
    }

    /// Returns the pixel of a value on an axis between these pixels.
    pub(crate) fn pixel(&self, value: f64, (first, last): (i32, i32)) -> i32 {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.ln(),
        };
        let (start, end) = (along(self.range.start), along(self.range.end));
        let place = (along(value) - start) / (end - start);
        first + (f64::from(last - first) * place).round() as i32
    }
}

/// Returns the range of a linear axis with these extreme values. It includes 0.
pub(crate) fn span(low: f64, high: f64) -> Range<f64> {
    let (low, high) = (low.min(0.0), high.max(0.0));
    if low == high {
        return 0.0..1.0;
    }
    low * 1.08..high * 1.08
}

/// Returns the ticks in `range`: the multiples of 1, 2 or 5 times a power of ten.
fn round(range: &Range<f64>) -> Vec<f64> {
    let width = range.end - range.start;
    let decade = 10_f64.powf((width / MOST as f64).log10().floor());
    let fits = |step: &f64| width / step <= MOST as f64;
    let Some(step) = [1.0, 2.0, 5.0, 10.0].map(|of| of * decade).into_iter().find(fits) else {
        return Vec::new();
    };
    let first = (range.start / step).ceil();
    let all = (0_u32..=MOST as u32).map(|at| (first + f64::from(at)) * step);
    all.filter(|tick| *tick <= range.end).collect()
}

fn logarithmic(range: &Range<f64>) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let ticks = |of: &&[f64]| -> Vec<f64> {
        let all = decades.clone().flat_map(|decade| of.iter().map(move |it| it * power(decade)));
        all.filter(|tick| range.contains(tick)).collect()
    };
    let fitting = DECADES.iter().map(ticks).find(|ticks| ticks.len() <= MOST);
    match fitting {
        Some(ticks) if ticks.len() >= FEWEST => ticks,
        // The range is less than a decade.
        Some(_) => round(range),
        None => {
            let each = decades.clone().count().div_ceil(MOST);
            let all = decades.step_by(each).map(power);
            all.filter(|tick| range.contains(tick)).collect()
        }
    }
}

fn power(of: i32) -> f64 {
    10_f64.powi(of)
}

/// Formats the label of a tick without trailing zeros.
pub(crate) fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => grouped(&text),
    }
}

/// Formats a number with three significant digits, and a number from 100 on as a whole number with
/// all its digits.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let decimals = (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
    grouped(&format!("{value:.decimals$}"))
}

/// Formats a number like [`digits`], but a whole number without decimals.
pub fn whole_or_digits(value: f64) -> String {
    if value.fract() == 0.0 { grouped(&format!("{value:.0}")) } else { digits(value) }
}

/// Separates groups of three digits by narrow no-break spaces, in a number of five digits or more.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, whole) = whole.split_at(whole.len() - whole.trim_start_matches('-').len());
    if whole.len() < 5 {
        return number.to_owned();
    }
    let mut text = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler) -> Vec<String> {
        ruler.ticks.iter().map(|value| tick(*value)).collect()
    }

    #[test]
    fn linear_axes_have_round_ticks() {
        let of = |values: &[f64]| {
            labels(&Ruler::of(Scale::Linear, values.iter().copied()).expect("values"))
        };
        assert_eq!(of(&[0.0, 0.0]), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(of(&[3.0, 46.0]), ["0", "10", "20", "30", "40"]);
        assert_eq!(of(&[-95.6, 12.0]), ["-100", "-80", "-60", "-40", "-20", "0"]);
        assert_eq!(of(&[4_100_000.0])[4], "2\u{202f}000\u{202f}000");
        assert!(Ruler::of(Scale::Linear, std::iter::empty()).is_none());
    }

    #[test]
    fn logarithmic_axes_have_enough_ticks() {
        let of = |low: f64, high: f64| labels(&Ruler::new(Scale::Logarithmic, low..high));
        assert_eq!(of(3.4, 11.0), ["4", "5", "6", "7", "8", "9", "10"]);
        assert_eq!(of(1.8, 90.0), ["2", "3", "5", "10", "20", "30", "50"]);
        assert_eq!(of(0.1, 10_000.0), ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(of(41.0, 48.0), ["41", "42", "43", "44", "45", "46", "47", "48"]);
        for (low, high) in [(1e-9, 1e9), (0.5, 2.0), (0.17, 46.0), (99.0, 101.0)] {
            let ticks = of(low, high);
            assert!((FEWEST..=MOST).contains(&ticks.len()), "{low} {high}: {ticks:?}");
        }
    }

    #[test]
    fn few_whole_numbers_are_ticks_themselves() {
        let of = |values: &[f64]| {
            labels(&Ruler::of(Scale::Logarithmic, values.iter().copied()).expect("values"))
        };
        assert_eq!(of(&[16.0, 1.0, 4.0, 1.0]), ["1", "4", "16"]);
        assert_eq!(of(&[1.0, 500.0]), ["1", "500"]);
        assert_eq!(of(&[1.5, 500.0]).len(), 8);
    }

    #[test]
    fn values_have_their_places() {
        let ruler = Ruler::new(Scale::Logarithmic, 1.0..100.0);
        assert_eq!(ruler.pixel(10.0, (0, 200)), 100);
        // Vertical axes are upside down.
        assert_eq!(Ruler::new(Scale::Linear, 0.0..4.0).pixel(1.0, (100, 0)), 75);
    }

    #[test]
    fn figures_have_three_digits() {
        let of = [0.0, 0.002_571, 0.014_701, 1.047, 2.0, 20.04, 432.4, 20_200.0].map(digits);
        assert_eq!(of, ["0", "0.00257", "0.0147", "1.05", "2.00", "20.0", "432", "20\u{202f}200"]);
        assert_eq!(digits(-1_046_011.3), "-1\u{202f}046\u{202f}011");
        assert_eq!([11.0, 2.5].map(whole_or_digits), ["11", "2.50"]);
    }
}
