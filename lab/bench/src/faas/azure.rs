//! The format of the Azure Functions trace of 2019, as its authors describe it: invocations per minute, and their
//! durations.
//!
//! | file | columns |
//! |---|---|
//! | `invocations_per_function_md.anon.dNN.csv` | HashOwner, HashApp, HashFunction, Trigger, 1, 2, …, 1440 |
//! | `function_durations_percentiles.anon.dNN.csv` | HashOwner, HashApp, HashFunction, Average, Count, Minimum, Maximum, percentile_Average_0, _1, _25, _50, _75, _99, _100; in ms |
//!
//! Files are read line by line. Only the most invoked functions are kept from the first file, and only their durations
//! from the second one. The authors' paper is Shahrad and others, "Serverless in the Wild", ATC '20; `sample/` contains
//! handwritten files of both kinds.

use super::MINUTES;
use crate::base::*;
use serde::de::DeserializeOwned;
use std::cmp::Reverse;
use std::io::Read;
use std::ops::RangeInclusive;

/// The headings of the columns before the minutes.
const KEYS: [&str; 4] = ["HashOwner", "HashApp", "HashFunction", "Trigger"];

/// The headings of a file of durations.
const DURATIONS: &str = "HashOwner,HashApp,HashFunction,Average,Count,Minimum,Maximum,percentile_Average_0,\
    percentile_Average_1,percentile_Average_25,percentile_Average_50,percentile_Average_75,percentile_Average_99,\
    percentile_Average_100";

/// The percentiles that the format has, as shares from 0 to 1.
const SHARES: [f64; 7] = [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0];

/// The maximum duration of an invocation, in milliseconds: a day.
const LONGEST_MS: f64 = 86_400_000.0;

/// A function's identity: the hashes of its owner, its application and itself.
pub(super) type Key = [String; 3];

/// The invocations of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) key: Key,
    /// The count of each requested minute.
    pub(super) counts: Vec<u32>,
}

/// The durations of a function's invocations, as the percentiles of [`SHARES`], in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Percentiles([f64; 7]);

impl Percentiles {
    /// Returns the duration that `share` of all invocations do not exceed, interpolated linearly between percentiles.
    pub(super) fn at(&self, share: f64) -> Duration {
        let upper = SHARES.iter().position(|&of| share <= of).unwrap_or(SHARES.len() - 1);
        let lower = upper.saturating_sub(1);
        let (from, to) = (SHARES[lower], SHARES[upper]);
        let part = if to > from { ((share - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
        let ms = self.0[lower] + (self.0[upper] - self.0[lower]) * part;
        Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default()
    }
}

/// Returns the `most` functions with the most invocations within `minutes` (by default all), the busiest first;
/// functions without invocations are omitted. Functions with equal numbers are in the file's order.
///
/// # Errors
/// An invalid line, with its number and column; minutes that the file lacks.
pub(super) fn busiest(
    input: impl Read,
    file: &str,
    minutes: Option<&RangeInclusive<usize>>,
    most: usize,
) -> Result<Vec<Counted>, Error> {
    let headings = KEYS.map(str::to_owned).into_iter();
    let headings: Vec<_> = headings.chain((1..=MINUTES).map(|it| it.to_string())).collect();
    let (columns, rows) = rows::<(Key, String, Vec<u32>)>(input, file, &headings, KEYS.len() + 1)?;
    let all = 1..=columns - KEYS.len();
    let minutes = minutes.unwrap_or(&all);
    if minutes.end() > all.end() {
        let (last, wanted) = (all.end(), minutes.end());
        bail!("{file}: the minutes end at {last}, {wanted} was asked for");
    }
    let mut kept: Vec<(u64, Counted)> = Vec::new();
    // The sort is stable.
    let keep_busiest = |kept: &mut Vec<(u64, Counted)>| {
        kept.sort_by_key(|(sum, _)| Reverse(*sum));
        kept.truncate(most);
    };
    for row in rows {
        let (key, _, counts) = row?;
        let counts = counts[minutes.start() - 1..*minutes.end()].to_vec();
        let sum = counts.iter().map(|&count| u64::from(count)).sum();
        if sum > 0 {
            kept.push((sum, Counted { key, counts }));
        }
        if kept.len() > 2 * most {
            keep_busiest(&mut kept);
        }
    }
    keep_busiest(&mut kept);
    Ok(kept.into_iter().map(|(_, function)| function).collect())
}

/// Reads the rows of a file, and returns the number of their columns, which is at least `least`. The file has the first
/// of these headings.
fn rows<T: DeserializeOwned>(
    input: impl Read,
    file: &str,
    headings: &[impl AsRef<str>],
    least: usize,
) -> Result<(usize, impl Iterator<Item = Result<T, Error>>), Error> {
    let wrong = move |error: csv::Error| unfit!("{file}: {error}");
    let mut reader = csv::Reader::from_reader(input);
    let here = reader.headers().map_err(wrong)?.clone();
    for at in 0..here.len().max(least) {
        let (found, expected) = (here.get(at), headings.get(at).map(AsRef::as_ref));
        if found.is_none() || found != expected {
            let found: String = found.unwrap_or_default().chars().take(40).collect();
            let expected = expected.unwrap_or("no column");
            let column = at + 1;
            bail!("{file}: column {column}: {found:?} where {expected:?} is expected");
        }
    }
    Ok((here.len(), reader.into_deserialize().map(move |row| row.map_err(wrong))))
}

/// Returns the durations of `functions`.
///
/// # Errors
/// An invalid line, with its number and column; a duration that is not from 0 to a day, with its function.
pub(super) fn durations(
    input: impl Read,
    file: &str,
    functions: &[Counted],
) -> Result<HashMap<Key, Percentiles>, Error> {
    let headings: Vec<&str> = DURATIONS.split(',').collect();
    let (_, rows) = rows::<(Key, [f64; 11])>(input, file, &headings, headings.len())?;
    let mut found = HashMap::new();
    for row in rows {
        let (key, [.., p0, p1, p25, p50, p75, p99, p100]) = row?;
        let percentiles = [p0, p1, p25, p50, p75, p99, p100];
        if let Some(ms) = percentiles.iter().find(|ms| !(0.0..=LONGEST_MS).contains(*ms)) {
            let function = &key[2];
            bail!("{file}: {function}: an invocation of {ms} ms, not from 0 to a day");
        }
        if functions.iter().any(|function| function.key == key) {
            found.insert(key, Percentiles(percentiles));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
