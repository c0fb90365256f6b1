//! `plan --check`: the rules for the order of steps, and whether a plan follows each of them, as text and as JSON.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use plan::Plan;
use plan::check::{self, Outcome, Place, Rule};
use serde::Serialize;
use trace::Steps;

use super::table;
use crate::failure::Failure;

/// The rules, each with the outcome of its check on a plan.
pub struct Verdicts<'a> {
    plan: &'a Plan,
    list: Vec<(&'static Rule, Outcome)>,
}

#[derive(Serialize)]
struct Entry<'a> {
    rule: &'a str,
    verdict: &'a str,
    what: &'a str,
    why: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    actor: &'static str,
    index: usize,
    step: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    object: String,
}

impl<'a> Verdicts<'a> {
    /// Checks a plan against all rules.
    pub fn of(plan: &'a Plan) -> Self {
        Self { plan, list: check::verdicts(plan).collect() }
    }

    /// Returns whether the plan breaks a rule.
    pub fn has_broken(&self) -> bool {
        self.list.iter().any(|(_, outcome)| matches!(outcome, Outcome::Broken(_)))
    }

    /// Returns one line per rule, with the rule's name, the outcome of its check, what the rule requires, and why. The
    /// line of a broken rule is followed by the steps that break the rule.
    pub fn text(&self) -> String {
        let mut rows = Vec::new();
        for (rule, outcome) in &self.list {
            let reason = format!("{}: {}", rule.what, rule.why);
            rows.push([rule.name.to_string(), verdict(outcome).to_string(), reason]);
            for Step { actor, index, step, object } in self.steps(outcome) {
                let line = format!("{actor} {index} {step} {object}");
                rows.push([String::new(), String::new(), line.trim_end().to_string()]);
            }
        }
        table::layout(["RULE", "VERDICT", "REASON"], rows)
    }

    /// Returns the outcomes as JSON: a list of rules with `rule`, `verdict`, `what` and `why`. A broken rule also has
    /// `steps`, a list of the steps that break it, with `actor`, `index` (from 0), `step` and `object`.
    ///
    /// # Errors
    /// As [`super::json`].
    pub fn json(&self) -> Result<String, Failure> {
        let entry = |(rule, outcome): &(&'static Rule, Outcome)| {
            let Rule { name, what, why, .. } = *rule;
            Entry { rule: name, verdict: verdict(outcome), what, why, steps: self.steps(outcome) }
        };
        let list: Vec<Entry<'_>> = self.list.iter().map(entry).collect();
        Ok(super::indented_json(&list)? + "\n")
    }

    fn steps(&self, outcome: &Outcome) -> Vec<Step> {
        let Outcome::Broken(places) = outcome else { return Vec::new() };
        let step = |place: &Place| {
            let label = self.plan.label(place.number(self.plan))?;
            let Place { actor, index } = *place;
            Some(Step { actor, index, step: label.name, object: label.object.into_owned() })
        };
        places.iter().filter_map(step).collect()
    }
}

fn verdict(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::DoesNotApply => "does not apply",
        Outcome::Broken(_) => "broken",
    }
}
