//! The rules of order that security or correctness depend on.
//!
//! A plan is data, so its order can be checked before it runs. [`rules()`] is the table: each rule has a name, a
//! statement and a reason. [`verdicts`] evaluates all rules on a plan, [`check`] returns the first broken one. Debug
//! builds assert for every plan that no rule is broken (`finished`), as do tests and the fuzz targets. `dayfly plan
//! --check` prints the verdicts. Release builds do not check plans when they start a container.

mod law;
mod nature;
mod pick;
mod rules;

use alloc::vec::Vec;
use core::fmt;

use sys::defence::{Defence, is_off};
use trace::Steps;

use crate::Plan;
use law::{Finding, Law, View};

/// A rule on the order of a plan's steps.
#[derive(Debug)]
pub struct Rule {
    /// The name that comments and reports use.
    pub name: &'static str,
    /// The statement of the rule.
    pub what: &'static str,
    /// The reason: the attack that the rule prevents, or what the kernel would do if the rule were broken.
    pub why: &'static str,
    laws: &'static [Law],
}

/// The result of one rule for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The plan follows the rule.
    Holds,
    /// The plan has no step to which the rule applies.
    DoesNotApply,
    /// These steps break the rule; the list is empty if the plan lacks a step.
    Broken(Vec<Place>),
}

/// A step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// `parent` or `init`.
    pub actor: &'static str,
    /// The step's index in that actor's list, from 0.
    pub index: usize,
}

impl Place {
    /// Returns the step's number in the sequence of the parent's and then init's steps, as in [`Steps`].
    pub fn number(self, plan: &Plan) -> usize {
        match self.actor {
            trace::PARENT => self.index,
            _ => plan.parent.len() + self.index,
        }
    }

    fn of(plan: &Plan, number: usize) -> Self {
        match number.checked_sub(plan.parent.len()) {
            None => Self { actor: trace::PARENT, index: number },
            Some(index) => Self { actor: crate::INIT, index },
        }
    }
}

impl Rule {
    /// Returns for each law of the rule whether a plan follows it.
    pub fn laws(&self, plan: &Plan) -> impl Iterator<Item = bool> {
        let view = View::new(plan);
        self.laws.iter().map(move |law| {
            let mut finding = Finding::new();
            law.eval(&view, &mut finding);
            finding.holds
        })
    }
}

/// Returns all rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::ALL.into_iter().flatten()
}

/// Evaluates every rule on a plan.
pub fn verdicts(plan: &Plan) -> impl Iterator<Item = (&'static Rule, Outcome)> {
    let view = View::new(plan);
    rules().map(move |rule| (rule, outcome(&view, rule)))
}

fn outcome(view: &View<'_>, rule: &Rule) -> Outcome {
    let mut finding = Finding::new();
    for law in rule.laws {
        law.eval(view, &mut finding);
    }
    let Finding { applies, holds, mut steps } = finding;
    match (holds, applies) {
        (true, true) => Outcome::Holds,
        (true, false) => Outcome::DoesNotApply,
        (false, _) => {
            steps.sort_unstable();
            steps.dedup();
            Outcome::Broken(steps.into_iter().map(|step| Place::of(view.plan, step)).collect())
        }
    }
}

/// Evaluates the rules on a plan up to the first broken one.
///
/// # Errors
/// The broken rule, with its steps.
pub fn check(plan: &Plan) -> Result<(), Broken<'_>> {
    let broken = verdicts(plan).find_map(|(rule, outcome)| match outcome {
        Outcome::Broken(places) => Some(Broken { plan, rule, places }),
        _ => None,
    });
    broken.map_or(Ok(()), Err)
}

/// Returns a finished plan; debug builds check every plan here. If the defence `after-pivot` is switched off, the plan
/// breaks rules on purpose.
pub(crate) fn finished(plan: Plan) -> Plan {
    if cfg!(debug_assertions)
        && !is_off(Defence::AfterPivot)
        && let Err(broken) = check(&plan)
    {
        panic!("{broken}");
    }
    plan
}

/// A rule that a plan breaks.
#[derive(Debug)]
pub struct Broken<'a> {
    plan: &'a Plan,
    /// The rule.
    pub rule: &'static Rule,
    /// The steps.
    pub places: Vec<Place>,
}

impl core::error::Error for Broken<'_> {}

impl fmt::Display for Broken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The number of steps named in a message.
        const NAMED: usize = 4;
        write!(f, "rule {} is broken: {}", self.rule.name, self.rule.what)?;
        for (number, place) in self.places.iter().take(NAMED).enumerate() {
            let before = if number == 0 { " (" } else { ", " };
            let Place { actor, index } = place;
            let name = self.plan.label(place.number(self.plan)).map_or("", |label| label.name);
            write!(f, "{before}{actor} {index} {name}")?;
        }
        f.write_str(match self.places.len() {
            0 => "",
            1..=NAMED => ")",
            _ => ", …)",
        })
    }
}
