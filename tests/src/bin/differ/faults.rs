//! Faults that a dayfly had. With that dayfly, the oracle must find each of them.

use crate::options::Options;
use crate::pool::{self, Stop};
use dayfly_tests::differ::compare::matches;
use dayfly_tests::differ::view::View;
use serde_json::{Value, json};
use std::io;

/// Runs the cases of this view; returns whether each shows the difference that it names, and prints the totals.
///
/// # Errors
/// Those of reading the cases and of running workers.
pub fn check(options: &Options, stop: &Stop) -> io::Result<bool> {
    let view = View::current().name();
    let text = std::fs::read_to_string(&options.faults)?;
    let mut faults: Vec<Value> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fault: Value = serde_json::from_str(line)?;
        if fault["views"].as_array().is_some_and(|views| views.iter().any(|one| one == view)) {
            faults.push(fault);
        }
    }
    let requests = faults
        .iter()
        .enumerate()
        .map(|(number, fault)| json!({ "seed": number, "fault": fault }))
        .collect();
    let (mut passed, mut failed) = (0, 0);
    pool::run(options, stop, requests, |answer| {
        let number =
            answer["seed"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        let fault = &faults[number];
        let name = fault["name"].as_str().unwrap_or_default();
        let expected: Vec<&str> =
            fault["expect"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let told = answer["differences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["text"].as_str());
        let unsteady =
            answer["unsteady"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let told: Vec<&str> = told.chain(unsteady).collect();
        match told.iter().find(|text| expected.iter().any(|one| matches(one, text))) {
            Some(text) => {
                passed += 1;
                println!("test oracle::{name} ... ok: {text}");
            }
            None => {
                failed += 1;
                println!(
                    "test oracle::{name} ... FAILED: {expected:?}: {told:?} {}",
                    answer["errors"]
                );
            }
        }
        Ok(())
    })?;
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(failed == 0)
}
