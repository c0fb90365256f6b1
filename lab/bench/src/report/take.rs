//! Extracts figures from an experiment's JSON output.

use measure::bootstrap;
use measure::statistics::Summary;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A measured figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The entrant's name.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// The 95 % interval of the figure, if there are enough samples.
    pub interval: Option<[f64; 2]>,
}

/// The location of figures in an experiment's output: in rows, one for each entrant.
#[derive(Debug, Clone, Copy)]
pub struct Take {
    /// The JSON pointer (RFC 6901) to the list of rows. It may contain one `*`, which stands for every element of a
    /// list.
    pub rows: &'static str,
    /// The keys, with their values, that a row must have to be selected.
    pub only: &'static [(&'static str, &'static str)],
    /// The key that names the entrant.
    pub by: &'static str,
    /// The figure of a row.
    pub figure: Figure,
    /// The factor by which the figure is multiplied.
    pub scale: f64,
}

/// The figure of a row.
#[derive(Debug, Clone, Copy)]
pub enum Figure {
    /// The median of samples.
    Median(&'static str),
    /// The mean of samples.
    Mean(&'static str),
    /// The standard deviation of samples.
    Deviation(&'static str),
    /// The 99th percentile of samples.
    P99(&'static str),
    /// The maximum of samples.
    Max(&'static str),
    /// The number at a JSON pointer (RFC 6901).
    Number(&'static str),
    /// The estimate, with its interval, at a JSON pointer (RFC 6901).
    Estimate(&'static str),
    /// The mean time of a category of a trace.
    Category(&'static str),
    /// Any other function of the row.
    By(fn(&Value) -> Option<f64>),
    /// No figure: only the published one is shown.
    Nothing,
}

impl Take {
    /// Takes rows of the list `rows`, named by `runtime`, and converts microseconds to milliseconds.
    #[must_use]
    pub const fn ms(only: &'static [(&'static str, &'static str)], figure: Figure) -> Self {
        Self { rows: "/rows", only, by: "runtime", figure, scale: 1e-3 }
    }

    /// Takes rows of the list `rows`, named by `runtime`, unscaled.
    #[must_use]
    pub const fn plain(only: &'static [(&'static str, &'static str)], figure: Figure) -> Self {
        Self { rows: "/rows", only, by: "runtime", figure, scale: 1.0 }
    }

    /// Takes no figure.
    #[must_use]
    pub const fn nothing() -> Self {
        Self::plain(&[], Figure::Nothing)
    }

    /// Returns the figures.
    #[must_use]
    pub fn cells(&self, result: &Value) -> Vec<Cell> {
        let list = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let rows = match self.rows.split_once("/*") {
            Some((outer, inner)) => {
                list(result, outer).iter().flat_map(|value| list(value, inner)).collect()
            }
            None => list(result, self.rows),
        };
        let rows = rows.iter();
        let is_it = |row: &&Value| self.only.iter().all(|(key, wanted)| says(&row[*key], wanted));
        rows.filter(is_it).filter_map(|row| self.cell(row)).collect()
    }

    fn cell(&self, row: &Value) -> Option<Cell> {
        let (value, interval) = self.figure.of(row)?;
        let name = match &row[self.by] {
            Value::String(name) => name.clone(),
            Value::Null => "this host".to_owned(),
            other => other.to_string(),
        };
        let scale = |value: f64| value * self.scale;
        Some(Cell { name, value: scale(value), interval: interval.map(|both| both.map(scale)) })
    }
}

/// Returns whether a value equals the wanted one: the same text or the same number.
fn says(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Number(number) => number.as_f64() == wanted.parse().ok(),
        _ => false,
    }
}

impl Figure {
    fn of(self, row: &Value) -> Option<(f64, Option<[f64; 2]>)> {
        let sum_up = |key: &str| Summary::of(&samples(&row[key]));
        let alone = |value: f64| (value, None);
        match self {
            Self::Median(key) => {
                let samples = samples(&row[key]);
                let interval = bootstrap::middle(&samples).map(|it| [it.low, it.high]);
                Summary::of(&samples).map(|all| (all.median, interval))
            }
            Self::Mean(key) => sum_up(key).map(|all| {
                // The interval assumes that the mean is normally distributed, so it needs enough samples.
                let half = 1.96 * all.deviation / (all.count as f64).sqrt();
                let enough = all.count >= bootstrap::FEWEST_ROUNDS;
                (all.mean, enough.then_some([all.mean - half, all.mean + half]))
            }),
            Self::Deviation(key) => sum_up(key).map(|all| alone(all.deviation)),
            Self::P99(key) => sum_up(key).map(|all| alone(all.p99)),
            Self::Max(key) => sum_up(key).map(|all| alone(all.max)),
            Self::Number(pointer) => row.pointer(pointer).and_then(Value::as_f64).map(alone),
            Self::Estimate(pointer) => {
                let estimate = row.pointer(pointer)?;
                let number = |key: &str| estimate[key].as_f64();
                Some((number("value")?, Some([number("low")?, number("high")?])))
            }
            Self::Category(name) => {
                let phases = row["phases"].as_array()?;
                let phase = phases.iter().find(|phase| phase["name"] == name)?;
                phase.pointer("/time_us/mean").and_then(Value::as_f64).map(alone)
            }
            Self::By(figure) => figure(row).map(alone),
            Self::Nothing => None,
        }
    }
}

/// Returns all numbers in nested lists.
fn samples(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(samples).collect(),
        other => other.as_f64().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_found() {
        let result = json!({ "rows": [
            { "runtime": "dayfly", "pause_ms": 0.0, "us": [1000, 2000, 3000] },
            { "runtime": "dayfly", "pause_ms": 60.0, "us": [5000, 5000, 5000, 5000, 5000, 5000] },
            { "runtime": "crun", "pause_ms": 60.0, "us": [[8000, 9000], [7000]],
              "ratio": { "value": 0.5, "low": 0.4, "high": 0.6 } },
        ]});
        let late = Take::ms(&[("pause_ms", "60")], Figure::Median("us")).cells(&result);
        assert_eq!((late[0].value, late[0].interval), (5.0, Some([5.0, 5.0])));
        assert_eq!((late[1].name.as_str(), late[1].value, late[1].interval), ("crun", 8.0, None));
        let max = Take::ms(&[("pause_ms", "0")], Figure::Max("us")).cells(&result);
        assert_eq!(max.len(), 1);
        assert_eq!(max[0].value, 3.0);
        let ratio = Take::plain(&[], Figure::Estimate("/ratio")).cells(&result);
        assert_eq!(ratio, [Cell { name: "crun".into(), value: 0.5, interval: Some([0.4, 0.6]) }]);
        assert_eq!(Take::ms(&[], Figure::Median("us")).cells(&json!({})), []);
    }

    #[test]
    fn lists_in_lists() {
        let result = json!({ "sections": [
            { "verdicts": [{ "id": "a", "data": { "us": 4.0 } }] },
            { "verdicts": [{ "id": "b", "data": { "us": 6.0 } }] },
        ]});
        let of = Take {
            rows: "/sections/*/verdicts",
            only: &[("id", "b")],
            by: "",
            figure: Figure::Number("/data/us"),
            scale: 1e-3,
        };
        let expected = Cell { name: "this host".into(), value: 0.006, interval: None };
        assert_eq!(of.cells(&result), [expected]);
    }

    #[test]
    fn a_mean_has_its_interval() {
        let row = json!({ "us": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] });
        let (mean, interval) = Figure::Mean("us").of(&row).expect("samples");
        let [low, high] = interval.expect("enough");
        assert!(mean == 3.5 && low > 1.9 && low < 2.1 && high > 4.9 && high < 5.1);
    }

    #[test]
    fn categories_of_a_trace() {
        let row = json!({ "phases": [{ "name": "mounts", "time_us": { "mean": 7.0 } }] });
        assert_eq!(Figure::Category("mounts").of(&row), Some((7.0, None)));
        assert_eq!(Figure::Category("sync").of(&row), None);
    }
}
