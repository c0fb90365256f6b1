//! Summary statistics of samples.

use serde::Serialize;

/// Summary statistics of a series of samples, in the samples' unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The number of samples.
    pub count: usize,
    /// The smallest sample.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest sample.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation (with n − 1).
    pub deviation: f64,
}

impl Summary {
    /// Summarises `samples`; returns `None` if `samples` is empty.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares = sorted.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        Some(Self {
            count,
            min,
            median: quantile(&sorted, 0.5),
            p90: quantile(&sorted, 0.9),
            p99: quantile(&sorted, 0.99),
            max,
            mean,
            deviation: (squares / (count.max(2) - 1) as f64).sqrt(),
        })
    }
}

/// Returns the median of `samples`, or NaN if `samples` is empty. Reorders `samples`.
#[must_use]
pub fn median(samples: &mut [f64]) -> f64 {
    let middle = samples.len() / 2;
    if samples.is_empty() {
        return f64::NAN;
    }
    let even = samples.len().is_multiple_of(2);
    let (below, &mut upper, _) = samples.select_nth_unstable_by(middle, f64::total_cmp);
    if !even {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// Returns the lower quartile of `samples`, or NaN if `samples` is empty. Reorders `samples`.
#[must_use]
pub fn lower_quartile(samples: &mut [f64]) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    quantile(samples, 0.25)
}

/// Returns the 99th percentile of `samples`, or NaN if `samples` is empty. Reorders `samples`.
#[must_use]
pub fn percentile_99(samples: &mut [f64]) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    quantile(samples, 0.99)
}

/// Returns the `q` quantile of sorted samples, by linear interpolation between neighbours (type 7 of Hyndman and Fan),
/// or NaN if there are no samples.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let below = place.floor();
    match (sorted.get(below as usize), sorted.get(place.ceil() as usize)) {
        (Some(low), Some(high)) => low + (high - low) * (place - below),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_up_known_samples() {
        let samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let summary = Summary::of(&samples).expect("samples");
        assert_eq!((summary.min, summary.median, summary.max), (1.0, 51.0, 101.0));
        assert_eq!((summary.p90, summary.p99), (91.0, 100.0));
        assert_eq!((summary.count, summary.mean), (101, 51.0));
        // The variance of 1..=n is n(n + 1) / 12.
        assert!((summary.deviation - (101.0_f64 * 102.0 / 12.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_quarter_is_below_the_lower_quartile() {
        let mut samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        assert_eq!(lower_quartile(&mut samples), 26.0);
        assert!(lower_quartile(&mut []).is_nan());
    }

    #[test]
    fn one_sample_is_its_own_summary() {
        let summary = Summary::of(&[4.0]).expect("a sample");
        assert_eq!((summary.median, summary.p99, summary.deviation), (4.0, 4.0, 0.0));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn medians_agree() {
        for samples in [vec![3.0, 1.0, 2.0], vec![4.0, 1.0, 3.0, 2.0], vec![7.0]] {
            let mut reordered = samples.clone();
            let summary = Summary::of(&samples).expect("samples");
            assert_eq!(median(&mut reordered), summary.median);
        }
        assert!(median(&mut []).is_nan());
    }
}
