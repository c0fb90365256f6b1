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
use super::csv_lines::{Line, Lines, shown};
use crate::Error;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::BufRead;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The headings of the columns before the minutes.
const KEYS: [&str; 4] = ["HashOwner", "HashApp", "HashFunction", "Trigger"];

/// The headings of a file of durations.
const DURATIONS: [&str; 14] = [
    "HashOwner",
    "HashApp",
    "HashFunction",
    "Average",
    "Count",
    "Minimum",
    "Maximum",
    "percentile_Average_0",
    "percentile_Average_1",
    "percentile_Average_25",
    "percentile_Average_50",
    "percentile_Average_75",
    "percentile_Average_99",
    "percentile_Average_100",
];

/// The percentiles that the format has, as shares from 0 to 1.
const SHARES: [f64; 7] = [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0];

/// The maximum length of a name.
const NAME: usize = 256;

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

/// A function, ranked by its number of invocations. Of functions with equal numbers, the one that is earlier in the
/// file ranks higher.
type Ranked = (u64, Reverse<usize>, Key, Vec<u32>);

/// Returns the `most` functions with the most invocations within `minutes` (by default all), the busiest first;
/// functions without invocations are omitted. Functions with equal numbers are in the file's order.
///
/// # Errors
/// An invalid line, with its number and column; minutes that the file lacks.
pub(super) fn busiest(
    input: impl BufRead,
    file: &str,
    minutes: Option<&RangeInclusive<usize>>,
    most: usize,
) -> Result<Vec<Counted>, Error> {
    let mut lines = Lines::new(input, file);
    let Some(first) = lines.next()? else {
        return Err(Error::Unfit(format!("{file}:1: no line with the names of columns")));
    };
    let columns = headings(&first)?;
    let all = 1..=columns - KEYS.len();
    let minutes = minutes.unwrap_or(&all);
    if minutes.end() > all.end() {
        let why = format!("the minutes end at {}, {} was asked for", all.end(), minutes.end());
        return Err(first.wrong_at(columns, &why));
    }
    // The least busy function is on top. Among equals, the last one in the file is dropped first.
    let mut kept: BinaryHeap<Reverse<Ranked>> = BinaryHeap::new();
    let mut number = 0;
    while let Some(line) = lines.next()? {
        let function = counted(&line, columns, minutes)?;
        let sum: u64 = function.counts.iter().map(|&count| u64::from(count)).sum();
        number += 1;
        let is_less = |least: &Reverse<Ranked>| sum <= least.0.0;
        if sum == 0 || (kept.len() >= most && kept.peek().is_none_or(is_less)) {
            continue;
        }
        kept.push(Reverse((sum, Reverse(number), function.key, function.counts)));
        if kept.len() > most {
            kept.pop();
        }
    }
    let sorted = kept.into_sorted_vec().into_iter();
    Ok(sorted.map(|Reverse((_, _, key, counts))| Counted { key, counts }).collect())
}

/// Checks the headings, which must be the keys and minutes from 1 on; returns the number of columns.
fn headings(line: &Line<'_>) -> Result<usize, Error> {
    let mut columns = 0;
    for field in line.fields() {
        let expected = match KEYS.get(columns) {
            Some(key) => (*key).to_owned(),
            None => (columns - KEYS.len() + 1).to_string(),
        };
        columns += 1;
        if field != expected || columns > KEYS.len() + MINUTES {
            let why = format!("{} where {expected:?} is expected", shown(field));
            return Err(line.wrong_at(columns, &why));
        }
    }
    if columns <= KEYS.len() {
        return Err(line.wrong_at(columns, "there are no minutes"));
    }
    Ok(columns)
}

fn counted(
    line: &Line<'_>,
    columns: usize,
    minutes: &RangeInclusive<usize>,
) -> Result<Counted, Error> {
    line.expect(columns)?;
    let key = key(line)?;
    let mut counts = Vec::with_capacity(minutes.end() + 1 - minutes.start());
    for (minute, field) in (1..).zip(line.fields().skip(KEYS.len())) {
        // All columns are checked, including those not requested: a file with an invalid column can't be trusted.
        let count = field.parse::<u32>().map_err(|_| {
            let why = format!("{} is not a number of invocations", shown(field));
            line.wrong_at(KEYS.len() + minute, &why)
        })?;
        if minutes.contains(&minute) {
            counts.push(count);
        }
    }
    Ok(Counted { key, counts })
}

fn key(line: &Line<'_>) -> Result<Key, Error> {
    let mut key: Key = Default::default();
    for (at, (place, field)) in key.iter_mut().zip(line.fields()).enumerate() {
        if field.is_empty() || field.len() > NAME {
            return Err(line.wrong_at(at + 1, &format!("{} is no hash", shown(field))));
        }
        field.clone_into(place);
    }
    Ok(key)
}

/// Returns the durations of `functions`.
///
/// # Errors
/// An invalid line, with its number and column.
pub(super) fn durations(
    input: impl BufRead,
    file: &str,
    functions: &[Counted],
) -> Result<HashMap<Key, Percentiles>, Error> {
    let mut lines = Lines::new(input, file);
    let Some(first) = lines.next()? else {
        return Err(Error::Unfit(format!("{file}:1: no line with the names of columns")));
    };
    first.expect(DURATIONS.len())?;
    for (at, (field, name)) in first.fields().zip(DURATIONS).enumerate() {
        if field != name {
            let why = format!("{} where {name:?} is expected", shown(field));
            return Err(first.wrong_at(at + 1, &why));
        }
    }
    let mut found = HashMap::new();
    while let Some(line) = lines.next()? {
        line.expect(DURATIONS.len())?;
        let key = key(&line)?;
        let mut numbers = [0.0; 11];
        for (at, (place, field)) in numbers.iter_mut().zip(line.fields().skip(3)).enumerate() {
            let number = field.parse().ok().filter(|ms| (0.0..=f64::MAX).contains(ms));
            *place = number.ok_or_else(|| {
                line.wrong_at(at + 4, &format!("{} is not a number from 0 on", shown(field)))
            })?;
        }
        let [.., p0, p1, p25, p50, p75, p99, p100] = numbers;
        let percentiles = [p0, p1, p25, p50, p75, p99, p100];
        if let Some(at) = percentiles.iter().position(|ms| *ms > LONGEST_MS) {
            return Err(line.wrong_at(at + 8, "an invocation of more than a day"));
        }
        if functions.iter().any(|function| function.key == key) {
            found.insert(key, Percentiles(percentiles));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
