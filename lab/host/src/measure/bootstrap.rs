//! Confidence intervals by the percentile bootstrap. The rounds are resampled with replacement, a statistic is computed
//! from each resample, and the interval contains the middle 95 % of the results.
//!
//! The random number generator has a fixed seed, so that the same samples give the same report.

use crate::measure::random::Random;
use crate::measure::statistics::quantile;
use serde::Serialize;

/// The number of resamples.
const DRAWS: usize = 2000;

/// The minimum number of rounds. Fewer rounds do not show how much the samples vary.
pub const FEWEST_ROUNDS: usize = 6;

/// A statistic with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The statistic, computed from all samples.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns whether the interval excludes `neutral`, which is 1 for a ratio and 0 for a difference. If it does, the
    /// two series differ significantly.
    pub fn differs_from(&self, neutral: f64) -> bool {
        self.low > neutral || self.high < neutral
    }

    /// Returns whether the statistic is accepted, or "not shown" if the accepted maximum lies within its interval.
    pub fn within(&self, maximum: f64) -> &'static str {
        if self.high <= maximum {
            "yes"
        } else if self.low > maximum {
            "no"
        } else {
            "not shown"
        }
    }
}

/// The relation between the n-th samples of two series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Both samples were taken in the same round, so a resample draws both or neither.
    Paired,
    /// The samples were taken in different rounds, so the two series are resampled independently.
    Independent,
}

/// Returns the ratio of the medians, `these` ÷ `those`, or `None` if there are too few samples or paired series differ
/// in length.
pub fn ratio(these: &[f64], those: &[f64], pairing: Pairing) -> Option<Estimate> {
    estimate(these, those, pairing, 0.5, |a, b| a / b)
}

/// Returns the ratio of the lower quartiles, which vary less than medians on a busy host. Returns `None` in the same
/// cases as [`ratio`].
pub fn quartile_ratio(these: &[f64], those: &[f64], pairing: Pairing) -> Option<Estimate> {
    estimate(these, those, pairing, 0.25, |a, b| a / b)
}

/// Returns the difference of the medians, `these` − `those`, or `None` in the same cases as [`ratio`].
pub fn difference(these: &[f64], those: &[f64], pairing: Pairing) -> Option<Estimate> {
    estimate(these, those, pairing, 0.5, |a, b| a - b)
}

/// Returns the median of `samples`. Returns `None` if there are too few samples.
pub fn middle(samples: &[f64]) -> Option<Estimate> {
    estimate(samples, samples, Pairing::Paired, 0.5, |middle, _| middle)
}

/// Returns the 99th percentile of `samples`. Returns `None` if there are too few samples. The interval cannot exceed the
/// largest sample, so it is too narrow if there are fewer than some hundred samples.
pub fn p99(samples: &[f64]) -> Option<Estimate> {
    estimate(samples, samples, Pairing::Paired, 0.99, |high, _| high)
}

fn estimate(
    these: &[f64],
    those: &[f64],
    pairing: Pairing,
    q: f64,
    figure: impl Fn(f64, f64) -> f64,
) -> Option<Estimate> {
    let fewest = these.len().min(those.len());
    if fewest < FEWEST_ROUNDS || (pairing == Pairing::Paired && these.len() != those.len()) {
        return None;
    }
    let mut draw = Random::new(0x9e37_79b9_7f4a_7c15);
    let (mut a, mut b) = (these.to_vec(), those.to_vec());
    let value = figure(quantile(&mut a, q), quantile(&mut b, q));
    let mut figures: Vec<f64> = (0..DRAWS)
        .map(|_| {
            match pairing {
                Pairing::Paired => {
                    for (a, b) in a.iter_mut().zip(&mut b) {
                        let round = draw.below(fewest);
                        (*a, *b) = (these[round], those[round]);
                    }
                }
                Pairing::Independent => {
                    a.fill_with(|| these[draw.below(these.len())]);
                    b.fill_with(|| those[draw.below(those.len())]);
                }
            }
            figure(quantile(&mut a, q), quantile(&mut b, q))
        })
        .collect();
    let [low, high] = [0.025, 0.975].map(|q| quantile(&mut figures, q));
    Some(Estimate { value, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Pairing::{Independent, Paired};

    #[test]
    fn a_quantile_lies_in_its_interval() {
        let samples = |count: u32| (1..=count).map(f64::from).collect::<Vec<f64>>();
        for (estimate, value, low, high) in
            [(middle(&samples(101)), 51.0, 35.0, 67.0), (p99(&samples(1001)), 991.0, 975.0, 1001.0)]
        {
            let of = estimate.expect("enough");
            assert_eq!(of.value, value);
            assert!(low < of.low && of.low < value && value < of.high && of.high <= high, "{of:?}");
        }
        assert_eq!((middle(&samples(5)), p99(&samples(5))), (None, None));
    }

    #[test]
    fn a_verdict_goes_by_the_interval() {
        let judge = |value, low, high| Estimate { value, low, high }.within(1.2);
        assert_eq!(judge(1.1, 1.0, 1.19), "yes");
        assert_eq!(judge(1.1, 1.0, 1.2), "yes");
        assert_eq!(judge(1.5, 1.3, 1.7), "no");
        assert_eq!(judge(1.2, 1.1, 1.3), "not shown");
        assert_eq!(judge(1.15, 1.1, 1.3), "not shown");
        assert_eq!(judge(1.25, 1.15, 1.4), "not shown");
    }

    /// Draws a number around `mean` from an approximately normal distribution, as the sum of twelve uniform numbers.
    fn noise(draw: &mut Random, mean: f64, spread: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| draw.share()).sum();
        mean + spread * (sum - 6.0)
    }

    fn row(draw: &mut Random, mean: f64, spread: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| noise(draw, mean, spread)).collect()
    }

    #[test]
    fn refuses_a_difference_that_is_not() {
        let samples = row(&mut Random::new(2), 5.0, 1.0, 100);
        for pairing in [Paired, Independent] {
            let ratio = ratio(&samples, &samples, pairing).expect("enough rounds");
            assert!(!ratio.differs_from(1.0), "{ratio:?}");
            let difference = difference(&samples, &samples, pairing).expect("enough rounds");
            assert!(!difference.differs_from(0.0), "{difference:?}");
        }
    }

    #[test]
    fn covers_the_truth_nineteen_times_in_twenty() {
        let mut draw = Random::new(3);
        let trials = 150;
        let covered = (0..trials)
            .filter(|_| {
                let (a, b) = (row(&mut draw, 2.0, 0.3, 60), row(&mut draw, 4.0, 0.6, 60));
                let ratio = ratio(&a, &b, Paired).expect("enough rounds");
                ratio.low <= 0.5 && 0.5 <= ratio.high
            })
            .count();
        assert!((133..=150).contains(&covered), "{covered} of {trials}");
    }

    #[test]
    fn what_disturbs_both_cancels_in_pairs() {
        let mut draw = Random::new(4);
        let load = row(&mut draw, 10.0, 2.0, 80);
        let ours: Vec<f64> = load.iter().map(|load| load + noise(&mut draw, 0.0, 0.05)).collect();
        let theirs: Vec<f64> = load.iter().map(|load| load + 0.5).collect();
        let paired = difference(&ours, &theirs, Paired).expect("enough rounds");
        let independent = difference(&ours, &theirs, Independent).expect("enough rounds");
        assert!(paired.high - paired.low < independent.high - independent.low);
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(ratio(&[1.0; 5], &[2.0; 5], Paired), None);
        assert_eq!(ratio(&[1.0; 10], &[2.0; 9], Paired), None);
        assert!(ratio(&[1.0; 10], &[2.0; 9], Independent).is_some());
    }
}
