//! The rules of order that security or correctness rest on.
//!
//! A plan is data, so what must come before what can be looked at before anything runs. [`rules()`] is the table:
//! each rule has a name, what it says and why. [`verdicts`] looks at a plan by all of them, [`check`] gives the first
//! that is broken. Debug builds assert it for every plan (`finished`), tests and the fuzz targets too, and
//! `dayfly plan --check` prints it; a start of a released build does not look.

mod law;
mod pick;
mod rules;

use alloc::vec::Vec;
use core::fmt;

use sys::defence::{Defence, is_off};
use trace::Steps;

use crate::Plan;
use law::{Finding, Law, Look};

/// A rule of order.
#[derive(Debug)]
pub struct Rule {
    /// Its name, by which comments and reports call it.
    pub name: &'static str,
    /// What it says.
    pub what: &'static str,
    /// Why: the attack, or what the kernel would do.
    pub why: &'static str,
    laws: &'static [Law],
}

/// What a look by one rule has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The plan follows it.
    Holds,
    /// The plan has nothing that it is about.
    DoesNotApply,
    /// The plan breaks it, by these steps; none where one is missing.
    Broken(Vec<Place>),
}

/// A step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// `parent` or `init`.
    pub actor: &'static str,
    /// Its number in that list, from 0.
    pub index: usize,
}

impl Place {
    /// Where the step is among the parent's, followed by init's, as [`Steps`] counts them.
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

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::ALL.into_iter().flatten()
}

/// Looks at a plan by every rule.
pub fn verdicts(plan: &Plan) -> impl Iterator<Item = (&'static Rule, Outcome)> {
    let look = Look::new(plan);
    rules().map(move |rule| (rule, outcome(&look, rule)))
}

fn outcome(look: &Look<'_>, rule: &Rule) -> Outcome {
    let mut finding = Finding { applies: false, holds: true, steps: Vec::new() };
    for law in rule.laws {
        law.weigh(look, &mut finding);
    }
    let Finding { applies, holds, mut steps } = finding;
    match (holds, applies) {
        (true, true) => Outcome::Holds,
        (true, false) => Outcome::DoesNotApply,
        (false, _) => {
            steps.sort_unstable();
            steps.dedup();
            Outcome::Broken(steps.into_iter().map(|step| Place::of(look.plan, step)).collect())
        }
    }
}

/// Looks at a plan by the rules, up to one that is broken.
///
/// # Errors
/// That rule, with the steps.
pub fn check(plan: &Plan) -> Result<(), Broken<'_>> {
    let broken = verdicts(plan).find_map(|(rule, outcome)| match outcome {
        Outcome::Broken(places) => Some(Broken { plan, rule, places }),
        _ => None,
    });
    broken.map_or(Ok(()), Err)
}

/// A plan at the end of its making: where every plan comes by, and debug builds look at it. Without the defence
/// `after-pivot` a plan breaks rules on purpose.
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
        /// Of many steps the first will do.
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
