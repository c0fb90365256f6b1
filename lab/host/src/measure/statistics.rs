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
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares = sorted.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        let mut quantile = |q| quantile(&mut sorted, q);
        Some(Self {
            count,
            min,
            median: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max,
            mean,
            deviation: (squares / (count.max(2) - 1) as f64).sqrt(),
        })
    }
}

/// Returns the median of `samples`, or NaN if `samples` is empty. Reorders `samples`.
pub fn median(samples: &mut [f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Returns the `q` quantile of `samples`, by linear interpolation between neighbours (type 7 of Hyndman and Fan), or NaN
/// if there are no samples. Reorders `samples`.
pub fn quantile(samples: &mut [f64], q: f64) -> f64 {
    let place = q.clamp(0.0, 1.0) * samples.len().saturating_sub(1) as f64;
    let below = place as usize;
    if samples.is_empty() {
        return f64::NAN;
    }
    let (_, &mut low, above) = samples.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    low + (high - low) * (place - below as f64)
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
        assert_eq!(quantile(&mut samples.clone(), 0.25), 26.0);
        // The variance of 1..=n is n(n + 1) / 12.
        assert!((summary.deviation - (101.0_f64 * 102.0 / 12.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn one_sample_is_its_own_summary() {
        let summary = Summary::of(&[4.0]).expect("a sample");
        assert_eq!((summary.median, summary.p99, summary.deviation), (4.0, 4.0, 0.0));
        assert_eq!(Summary::of(&[]), None);
        assert!(median(&mut []).is_nan());
    }
}
