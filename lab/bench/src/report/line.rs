//! A line of a part: one quantity, with its published figures, and where the measured figures are in an experiment's
//! JSON output.

use crate::base::*;
use serde_json::Map;

/// A quantity, with its published figures and the rule for the measured ones. The output has a list of rows, one for
/// each entrant.
///
/// A path is a list of keys, separated by `/`. In a list, a key is an index or `last`, or `KEY=TEXT`, which is the first
/// element that has this text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The name of the measured quantity.
    pub what: String,
    /// The published figures, if any.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The figure of a row, and the path to it in the row. If there is none, only the published figure is shown.
    pub take: Option<(Figure, String)>,
    /// The path to the list of rows, by default `rows`. It may contain one `*`, which stands for every element of a list.
    pub rows: Option<String>,
    /// The keys, with their values, that a row must have to be selected.
    #[serde(default, rename = "where")]
    pub only: Map<String, Value>,
    /// The key that names the entrant, by default `runtime`.
    pub by: Option<String>,
    /// The factor by which the figure is multiplied. Without it, microseconds become milliseconds if that is the unit.
    pub factor: Option<f64>,
    /// The unit of the measured figure.
    #[serde(default)]
    pub unit: String,
}

/// A published figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The figure as text, with its unit.
    pub text: String,
    /// The figure in the unit of the line, for pictures; `None` if it has another unit.
    pub number: Option<f64>,
    /// The subject of the figure: a runtime, a machine.
    #[serde(default)]
    pub of: String,
}

/// The number of samples from which on a 99th percentile has an interval.
const MANY: usize = 300;

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

/// The kind of a figure.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// The median of samples.
    Median,
    /// The mean of samples.
    Mean,
    /// The standard deviation of samples.
    Deviation,
    /// The 99th percentile of samples.
    P99,
    /// The maximum of samples.
    Max,
    /// A number.
    Number,
    /// An estimate, with its interval.
    Estimate,
}

impl Line {
    /// Returns the measured figures, one for each entrant.
    pub fn cells(&self, result: &Value) -> Vec<Cell> {
        let is_it = |row: &&Value| self.only.iter().all(|(key, wanted)| says(&row[key], wanted));
        let rows = list(result, self.rows.as_deref().unwrap_or("rows"));
        rows.into_iter().filter(is_it).filter_map(|row| self.cell(row)).collect()
    }

    fn cell(&self, row: &Value) -> Option<Cell> {
        let (figure, path) = self.take.as_ref()?;
        let (value, interval) = figure.of(find(row, path)?)?;
        let name = match &row[self.by.as_deref().unwrap_or("runtime")] {
            Value::String(name) => name.clone(),
            Value::Null => "this host".to_owned(),
            other => other.to_string(),
        };
        let is_converted = self.unit == "ms" && path.contains("_us");
        let factor = self.factor.unwrap_or(if is_converted { 1e-3 } else { 1.0 });
        let scale = |value: f64| value * factor;
        Some(Cell { name, value: scale(value), interval: interval.map(|both| both.map(scale)) })
    }
}

/// Returns the value at a path.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').try_fold(value, |at, key| match (at, key.split_once('=')) {
        (Value::Array(list), Some((key, text))) => list.iter().find(|it| it[key] == text),
        (Value::Array(list), None) if key == "last" => list.last(),
        (Value::Array(list), None) => list.get(key.parse::<usize>().ok()?),
        _ => at.get(key),
    })
}

/// Returns the elements of the list at a path, or of several lists.
fn list<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    match path.split_once("/*/") {
        Some((outer, inner)) => {
            list(value, outer).into_iter().flat_map(|value| list(value, inner)).collect()
        }
        None => find(value, path).and_then(Value::as_array).into_iter().flatten().collect(),
    }
}

/// Returns whether a value equals the wanted one: the same text or the same number.
fn says(value: &Value, wanted: &Value) -> bool {
    match wanted.as_f64() {
        Some(wanted) => value.as_f64() == Some(wanted),
        None => value == wanted,
    }
}

impl Figure {
    fn of(self, at: &Value) -> Option<(f64, Option<[f64; 2]>)> {
        let samples = samples(at);
        let all = Summary::of(&samples);
        Some(match self {
            Self::Median => {
                (all?.median, bootstrap::middle(&samples).map(|middle| [middle.low, middle.high]))
            }
            Self::Mean => {
                let Summary { mean, deviation, count, .. } = all?;
                // The interval assumes that the mean is normally distributed, so it needs enough samples.
                let half = 1.96 * deviation / (count as f64).sqrt();
                let enough = count >= bootstrap::FEWEST_ROUNDS;
                (mean, enough.then_some([mean - half, mean + half]))
            }
            Self::Deviation => (all?.deviation, None),
            Self::P99 => {
                // Of fewer samples, the interval would be too narrow.
                let has_many = samples.len() >= MANY;
                let p99 = bootstrap::p99(&samples).filter(|_| has_many);
                (all?.p99, p99.map(|p99| [p99.low, p99.high]))
            }
            Self::Max => (all?.max, None),
            Self::Number => (at.as_f64()?, None),
            Self::Estimate => {
                let number = |key: &str| at[key].as_f64();
                (number("value")?, Some([number("low")?, number("high")?]))
            }
        })
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

    fn line(text: &str) -> Line {
        toml::from_str(&format!("what = ''\n{text}")).expect("a line")
    }

    #[test]
    fn figures_are_found() {
        let result = json!({ "rows": [
            { "runtime": "dayfly", "pause_ms": 0.0, "us": [1000, 2000, 3000] },
            { "runtime": "dayfly", "pause_ms": 60.0, "some_us": [5000, 5000, 5000, 5000, 5000, 5000] },
            { "runtime": "crun", "pause_ms": 60.0, "some_us": [[8000, 9000], [7000]],
              "ratio": { "value": 0.5, "low": 0.4, "high": 0.6 } },
        ]});
        let late = line("where.pause_ms = 60\nunit = 'ms'\ntake = ['median', 'some_us']");
        let late = late.cells(&result);
        assert_eq!((late[0].value, late[0].interval), (5.0, Some([5.0, 5.0])));
        assert_eq!((late[1].name.as_str(), late[1].value, late[1].interval), ("crun", 8.0, None));
        let max = line("where.pause_ms = 0\nfactor = 100\ntake = ['max', 'us']").cells(&result);
        assert_eq!((max.len(), max[0].value), (1, 300_000.0));
        let ratio = line("take = ['estimate', 'ratio']").cells(&result);
        assert_eq!(ratio, [Cell { name: "crun".into(), value: 0.5, interval: Some([0.4, 0.6]) }]);
        assert_eq!(line("take = ['median', 'us']").cells(&json!({})), []);
        assert_eq!(line("").cells(&result), []);
    }

    #[test]
    fn lists_in_lists() {
        let result = json!({ "sections": [
            { "verdicts": [{ "id": "a", "points": [{ "x": 4.0 }, { "x": 5.0 }] }] },
            { "verdicts": [{ "id": "b", "points": [{ "x": 6.0, "name": "mounts" }, { "x": 7.0 }] }] },
        ]});
        for (path, value) in [("last", 7.0), ("0", 6.0), ("name=mounts", 6.0)] {
            let of = line(&format!(
                "rows = 'sections/*/verdicts'\nwhere.id = 'b'\nby = ''\ntake = ['number', 'points/{path}/x']"
            ));
            let expected = Cell { name: "this host".into(), value, interval: None };
            assert_eq!(of.cells(&result), [expected]);
        }
    }

    #[test]
    fn a_mean_has_its_interval() {
        let row = json!([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (mean, interval) = Figure::Mean.of(&row).expect("samples");
        let [low, high] = interval.expect("enough");
        assert!(mean == 3.5 && low > 1.9 && low < 2.1 && high > 4.9 && high < 5.1);
    }
}
