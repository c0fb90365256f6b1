//! `plan`: the steps of a container's start, as text and as JSON.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use plan::Plan;
use serde::Serialize;
use trace::{Label, Phase};

use crate::failure::Failure;

/// Returns a line for each pass that has an effect on the configuration, and for each step, with its actor, phase, name
/// and object.
pub fn text(plan: &Plan, passes: &[&str]) -> String {
    let (parent, init) = plan::labels(plan);
    let mut text = String::new();
    let _ = writeln!(text, "{:<7} {:<14} STEP", "ACTOR", "PHASE");
    for pass in passes {
        let _ = writeln!(text, "{:<7} {:<14} pass {pass}", "spec", Phase::Configuration);
    }
    for (actor, labels) in [("parent", parent), ("init", init)] {
        for label in labels {
            let _ = write!(text, "{actor:<7} {:<14} {}", label.phase, label.name);
            if !label.object.is_empty() {
                let _ = write!(text, " {}", label.object);
            }
            text.push('\n');
        }
    }
    text
}

#[derive(Serialize)]
struct Document<'a> {
    passes: &'a [&'a str],
    parent: Vec<Step<'a>>,
    init: Vec<Step<'a>>,
}

#[derive(Serialize)]
struct Step<'a> {
    phase: &'static str,
    step: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    object: &'a str,
}

/// Returns the passes that have an effect on the configuration, and the steps of the parent process and of init, as JSON.
/// Each step has `phase`, `step` and `object`.
///
/// # Errors
/// As [`super::json`].
pub fn json(plan: &Plan, passes: &[&str]) -> Result<String, Failure> {
    let (parent, init) = plan::labels(plan);
    let document = Document { passes, parent: steps(&parent), init: steps(&init) };
    Ok(super::indented_json(&document)? + "\n")
}

fn steps<'a>(labels: &'a [Label<'_>]) -> Vec<Step<'a>> {
    let step = |label: &'a Label<'_>| Step {
        phase: label.phase.name(),
        step: label.name,
        object: &label.object,
    };
    labels.iter().map(step).collect()
}
