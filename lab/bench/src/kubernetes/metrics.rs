//! Histograms in Prometheus' text format, which the kubelet serves at `/metrics`.

/// A histogram of times in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram {
    /// The buckets: upper bound in seconds, and number of values up to it. The last bound is infinite.
    buckets: Vec<(f64, f64)>,
    /// The sum of all values.
    sum: f64,
    /// The number of values.
    pub(super) count: f64,
}

impl Histogram {
    /// Finds the histogram `name` in `text` whose labels include `label`, such as
    /// `operation_type="exec_sync"`; an empty `label` matches any labels. Returns an empty
    /// histogram if none is found.
    pub(super) fn find(text: &str, name: &str, label: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines().filter(|line| line.contains(label)) {
            let Some(rest) = line.strip_prefix(name) else { continue };
            let Some(value) = rest.rsplit(' ').next().and_then(|value| value.parse().ok()) else {
                continue;
            };
            if let Some(labels) = rest.strip_prefix("_bucket") {
                found.buckets.extend(bound(labels).map(|bound| (bound, value)));
            } else if rest.starts_with("_sum") {
                found.sum = value;
            } else if rest.starts_with("_count") {
                found.count = value;
            }
        }
        found
    }

    /// Returns the histogram of the values since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |bound: f64| {
            let same = earlier.buckets.iter().find(|of| of.0.total_cmp(&bound).is_eq());
            same.map_or(0.0, |of| of.1)
        };
        Self {
            buckets: self.buckets.iter().map(|&(bound, n)| (bound, n - before(bound))).collect(),
            sum: self.sum - earlier.sum,
            count: self.count - earlier.count,
        }
    }

    /// Returns the mean, in seconds; `None` if there are no values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// Returns a quantile in seconds, interpolated linearly in its bucket as Prometheus'
    /// `histogram_quantile` does. If the quantile is in the last bucket, which has no upper bound,
    /// returns the lower bound of that bucket. `None` if there are no values.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let rank = q * self.count;
        let at = self.buckets.iter().position(|&(_, n)| n >= rank && n > 0.0)?;
        let (upper, n) = self.buckets[at];
        let (lower, below) = if at == 0 { (0.0, 0.0) } else { self.buckets[at - 1] };
        if upper.is_infinite() || n <= below {
            return Some(lower);
        }
        Some(lower + (upper - lower) * (rank - below) / (n - below))
    }
}

/// Returns a bucket's upper bound, which is its label `le`.
fn bound(labels: &str) -> Option<f64> {
    let rest = labels.split_once("le=\"")?.1;
    match rest.split_once('"')?.0 {
        "+Inf" => Some(f64::INFINITY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# TYPE kubelet_pod_start_duration_seconds histogram
kubelet_pod_start_duration_seconds_bucket{le=\"0.5\"} 10
kubelet_pod_start_duration_seconds_bucket{le=\"1\"} 30
kubelet_pod_start_duration_seconds_bucket{le=\"+Inf\"} 40
kubelet_pod_start_duration_seconds_sum 32.5
kubelet_pod_start_duration_seconds_count 40
ops_bucket{operation_type=\"exec_sync\",le=\"0.005\"} 3
ops_bucket{operation_type=\"exec_sync\",le=\"+Inf\"} 3
ops_sum{operation_type=\"exec_sync\"} 0.006
ops_count{operation_type=\"exec_sync\"} 3
ops_bucket{operation_type=\"version\",le=\"0.005\"} 9
ops_count{operation_type=\"version\"} 9
";

    #[test]
    fn histograms_are_found_by_name_and_label() {
        let exec = Histogram::find(TEXT, "ops", "operation_type=\"exec_sync\"");
        assert_eq!((exec.buckets.len(), exec.count), (2, 3.0));
        assert!((exec.mean().expect("values") - 0.002).abs() < 1e-12);
        assert_eq!(Histogram::find(TEXT, "absent", ""), Histogram::default());
    }

    #[test]
    fn quantiles_are_those_of_the_values_since() {
        let start = Histogram::find(TEXT, "kubelet_pod_start_duration_seconds", "");
        let since = start.since(&Histogram::default());
        let quantiles = [0.25, 0.5, 0.99].map(|q| since.quantile(q));
        // The last bucket has no upper bound.
        assert_eq!(quantiles, [Some(0.5), Some(0.75), Some(1.0)]);
        let none = start.since(&start);
        assert_eq!((none.count, none.mean(), none.quantile(0.5)), (0.0, None, None));
    }
}
