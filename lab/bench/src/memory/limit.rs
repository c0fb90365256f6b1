//! The smallest memory limit with which a container starts.

use super::Memory;
use crate::harness::*;

/// The first limit that is tried, in bytes: about the memory that a container with a small program needs.
const BEGIN: u64 = 1 << 20;
/// The limit at which the search gives up.
const MOST: u64 = 1 << 30;

/// Searches for the smallest limit, in bytes, with which `tries` starts in a row succeed.
///
/// # Errors
/// Errors of the harness itself; an interrupt; no limit suffices.
pub(super) fn smallest(stand: &Stand, entrant: &Entrant, options: &Memory) -> Result<u64, Error> {
    let mut reason = String::new();
    let found = search(options.precision as u64 * 1024, |limit| {
        for _ in 0..options.tries {
            let change = |config: &mut serde_json::Value| {
                config["linux"]["resources"]["memory"] = json!({ "limit": limit });
            };
            let result = Container::changed(stand, entrant, &[], change)?.run();
            // A failure caused by a signal says nothing about the limit.
            interrupt::check()?;
            if let Err(fault) = result {
                reason = fault.to_string();
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    })?;
    let none = || Error::Out(format!("with any memory limit up to {MOST}: {reason}"));
    found.ok_or_else(none)
}

/// Returns the smallest sufficient multiple of `precision`: doubles the limit until it suffices, and then searches
/// between that limit and the last insufficient one.
fn search<E>(
    precision: u64,
    mut does: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    // `fails` and `starts` count multiples of the precision.
    let (mut fails, mut starts) = (0, BEGIN.div_ceil(precision));
    while !does(starts * precision)? {
        fails = starts;
        starts *= 2;
        if starts * precision > MOST {
            return Ok(None);
        }
    }
    while starts - fails > 1 {
        let middle = fails.midpoint(starts);
        if does(middle * precision)? {
            starts = middle;
        } else {
            fails = middle;
        }
    }
    Ok(Some(starts * precision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(precision: u64, least: u64) -> Option<u64> {
        let does = |limit| Ok::<_, ()>(limit >= least);
        search(precision, does).expect("no error")
    }

    #[test]
    fn finds_the_smallest() {
        let kib = 1024;
        assert_eq!(found(16 * kib, 400 * kib), Some(400 * kib));
        assert_eq!(found(16 * kib, 401 * kib), Some(416 * kib));
        assert_eq!(found(16 * kib, 9000 * kib), Some(9008 * kib));
        assert_eq!(found(3000 * kib, kib), Some(3000 * kib));
        assert_eq!(found(16 * kib, MOST + 1), None);
    }
}
