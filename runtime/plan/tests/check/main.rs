//! Tests of the rules of order (`plan::check`). For each law of a rule, a plan that breaks the law is checked, and the
//! rule must be reported. Plans of all kinds must follow the rules, and each rule must apply to some of these plans.

mod breakers;
mod cases;
#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;

use dayfly_plan::check::{self, Outcome};
use dayfly_plan::{Labelled, Plan};
use trace::Steps;

use cases::Case;
use common::checked;

/// Returns the outcome of one rule for a plan.
fn outcome(plan: &Plan, name: &str) -> Outcome {
    check::verdicts(plan).find(|(rule, _)| rule.name == name).expect("a rule").1
}

/// For each law of each rule, a plan of the compiler follows the rule, and breaks the law when steps are moved or
/// removed.
#[test]
fn every_law_has_its_breaker() {
    let untouched = Case::new().plan().unwrap();
    let mut rest: BTreeSet<(&str, usize)> = check::rules()
        .flat_map(|rule| (0..rule.laws(&untouched).count()).map(|law| (rule.name, law)))
        .collect();
    for (name, case, break_it) in breakers::BREAKERS {
        let mut plan = checked(case().plan().unwrap());
        assert_eq!(outcome(&plan, name), Outcome::Holds, "{name}");
        break_it(&mut plan);
        let Outcome::Broken(places) = outcome(&plan, name) else { panic!("{name} is not broken") };
        for place in places {
            assert!(plan.label(place.number(&plan)).is_some(), "{name}: {place:?}");
        }
        let rule = check::rules().find(|rule| rule.name == *name).expect("a rule");
        for (law, holds) in rule.laws(&plan).enumerate() {
            if !holds {
                rest.remove(&(rule.name, law));
            }
        }
    }
    assert!(rest.is_empty(), "no plan breaks these laws, counted from 0: {rest:?}");
}

/// Checks the report of a broken rule: it names the rule and the steps.
#[test]
fn a_broken_rule_is_named_with_its_steps() {
    let mut plan = Case::new().plan().unwrap();
    let commit = plan.parent.iter().position(|step| step.label().name == "commit").unwrap();
    plan.parent.swap(commit, commit - 1);
    let (ready, told) = (commit - 1, check::check(&plan).unwrap_err().to_string());
    let wanted = "rule words-match is broken: each actor waits";
    assert!(told.starts_with(wanted), "{told}");
    assert!(told.contains(&format!("parent {ready} commit")), "{told}");
}

#[test]
fn names_and_texts_are_short() {
    let mut names = BTreeSet::new();
    let mut size = 0;
    for rule in check::rules() {
        assert!(names.insert(rule.name), "{} is there twice", rule.name);
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(rule.name.bytes().all(is_plain) && rule.name.len() <= 30, "{}", rule.name);
        size += rule.name.len() + rule.what.len() + rule.why.len();
    }
    // Every released binary contains these texts.
    assert!(names.len() > 30 && size < 9500, "{} rules of {size} bytes", names.len());
}

/// A thousand combinations of configurations and callers follow the rules, and each rule applies to some of them.
#[test]
fn plans_of_all_kinds_keep_the_rules() {
    let mut rest: BTreeSet<&str> = check::rules().map(|rule| rule.name).collect();
    let mut compiled = 0;
    for seed in 1..1500 {
        let Ok(plan) = Case::any(seed).plan() else { continue };
        compiled += 1;
        for (rule, outcome) in check::verdicts(&plan) {
            match outcome {
                Outcome::Holds => drop(rest.remove(rule.name)),
                Outcome::DoesNotApply => {}
                Outcome::Broken(places) => panic!("{} of {seed}: {places:?}", rule.name),
            }
        }
    }
    assert!(compiled > 500, "{compiled}");
    assert!(rest.is_empty(), "never comes up: {rest:?}");
}
