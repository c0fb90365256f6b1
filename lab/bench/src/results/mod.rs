//! Results as tables, JSON and CSV.

mod compare;
mod csv;
mod picture;
mod table;
#[cfg(test)]
mod tests;

pub use compare::{Row, compare};
pub use csv::csv;
pub(crate) use csv::lines_of;
pub use picture::pictures;
pub(crate) use picture::{bars, chart, distribution, dots, over_width};
pub(crate) use table::{difference, judged, title};
pub use table::{resources, weights};

use crate::Error;
use crate::circumstances::Circumstances;
use crate::stand::Entrant;
use serde::Serialize;
use serde_json::Value;

/// An excluded entrant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Out {
    /// The entrant's name.
    pub runtime: String,
    /// The reason.
    pub reason: String,
}

/// Returns those of `entrants` that failed.
pub fn failures(entrants: &[Entrant]) -> Vec<Out> {
    let out = |entrant: &Entrant| {
        Some(Out { runtime: entrant.name.clone(), reason: entrant.failure()?.to_owned() })
    };
    entrants.iter().filter_map(out).collect()
}

/// Formats the failures, one per line.
pub fn failures_text(failures: &[Out]) -> String {
    failures.iter().map(|out| format!("{} is out: {}\n", out.runtime, out.reason)).collect()
}

/// Formats everything as JSON: the circumstances, the failures, and an experiment's results by name.
///
/// # Errors
/// Values that JSON can't represent.
pub fn json(
    record: &Circumstances,
    failures: &[Out],
    results: impl IntoIterator<Item = (&'static str, Value)>,
) -> serde_json::Result<String> {
    let mut whole = serde_json::Map::new();
    whole.insert("record".to_owned(), serde_json::to_value(record)?);
    whole.insert("failures".to_owned(), serde_json::to_value(failures)?);
    whole.extend(results.into_iter().map(|(name, value)| (name.to_owned(), value)));
    serde_json::to_string_pretty(&whole)
}

/// Converts a result to JSON.
///
/// # Errors
/// A value that JSON can't represent.
pub fn value(result: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(|error| Error::Unfit(format!("JSON: {error}")))
}

/// Groups items by key. Keys and items remain in order of appearance.
pub(crate) fn grouped<K: PartialEq, T>(
    items: impl IntoIterator<Item = (K, T)>,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Returns each value once, in order of appearance.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let groups = grouped(values.into_iter().map(|value| (value, ())));
    groups.into_iter().map(|(value, _)| value).collect()
}
