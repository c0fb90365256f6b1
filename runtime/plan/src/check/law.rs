//! The conditions of which rules consist ([`Law`]), and their evaluation on the steps of a plan.

use alloc::vec::Vec;
use core::ops::Range;

use crate::Plan;
use crate::check::pick::{Pick, Step, init, parent};
use crate::step::{InitStep, ParentStep};

/// A condition on the order of steps; a rule consists of one or more. *Before* means in every execution, whatever the
/// timing of the two actors ([`View::is_before`]).
#[derive(Debug)]
pub enum Law {
    /// Exactly one step is selected.
    Once(Pick),
    /// Exactly one step is selected, and it is init's last.
    Last(Pick),
    /// All steps of the first kind come before all steps of the second kind.
    Before(Pick, Pick),
    /// Each step of the first kind is preceded by a step of the second kind.
    Needs(Pick, Pick),
    /// Each step of the first kind is followed by a step of the second kind, and all steps between
    /// the two are of the third kind.
    Then(Pick, Pick, Pick),
    /// Each step of the first kind is also a step of the second kind.
    Each(Pick, Pick),
    /// A custom check.
    Own(fn(&View<'_>, &mut Finding)),
}

/// The result of a rule's laws for a plan.
#[derive(Debug)]
pub struct Finding {
    /// Whether the plan contains steps to which the rule applies.
    pub applies: bool,
    /// Whether the plan follows the rule.
    pub holds: bool,
    /// The steps that break the rule.
    pub steps: Vec<usize>,
}

impl Finding {
    /// Returns the result before any law is evaluated.
    pub const fn new() -> Self {
        Self { applies: false, holds: true, steps: Vec::new() }
    }

    /// Records a step that breaks the rule.
    pub fn report(&mut self, number: usize) {
        self.holds = false;
        self.steps.push(number);
    }
}

/// A message between the parent and init, or an exchange of messages: the step of each actor that takes part in it.
struct Sync {
    parent: Pick,
    init: Pick,
    parent_sends: bool,
    init_sends: bool,
}

static SYNCS: [Sync; 6] = [
    Sync {
        parent: parent!(ParentStep::Admit),
        init: init!(InitStep::AwaitAdmission),
        parent_sends: true,
        init_sends: false,
    },
    Sync {
        parent: parent!(ParentStep::RunHooks),
        init: init!(InitStep::AwaitHooks),
        parent_sends: true,
        init_sends: true,
    },
    Sync {
        parent: parent!(ParentStep::SendListener(_)),
        init: init!(InitStep::HandOverListener),
        parent_sends: true,
        init_sends: true,
    },
    Sync {
        parent: parent!(ParentStep::AwaitReady),
        init: init!(InitStep::AnnounceReady),
        parent_sends: false,
        init_sends: true,
    },
    Sync {
        parent: parent!(ParentStep::Commit),
        init: init!(InitStep::AwaitCommit),
        parent_sends: true,
        init_sends: false,
    },
    Sync {
        parent: parent!(ParentStep::AwaitExec),
        init: init!(InitStep::Exec { .. }),
        parent_sends: false,
        init_sends: true,
    },
];

/// The index in `SYNCS` of the last entry: the exec of init, which closes the channel.
const END: usize = SYNCS.len() - 1;

/// A plan under examination. Its steps are numbered in one sequence, the parent's before init's.
pub struct View<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The number of the parent's step that creates init.
    clone: Option<usize>,
    /// For each entry of `SYNCS`, the numbers of the parent's step and of init's step.
    syncs: [(Option<usize>, Option<usize>); SYNCS.len()],
}

impl<'a> View<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut view = Self { plan, clone: None, syncs: [(None, None); SYNCS.len()] };
        view.clone = view.first(parent!(ParentStep::Clone { .. }));
        for (number, sync) in SYNCS.iter().enumerate() {
            view.syncs[number] = (view.first(sync.parent), view.first(sync.init));
        }
        view
    }

    /// Returns the numbers of all steps.
    pub fn steps(&self) -> Range<usize> {
        0..self.plan.parent.len() + self.plan.init.len()
    }

    /// Returns the numbers of init's steps.
    pub fn init(&self) -> Range<usize> {
        self.plan.parent.len()..self.steps().end
    }

    /// Returns the step with this number.
    pub fn step(&self, number: usize) -> Step<'a> {
        let init = number.checked_sub(self.plan.parent.len());
        match init {
            None => Step { parent: self.plan.parent.get(number), init: None },
            Some(index) => Step { parent: None, init: self.plan.init.get(index) },
        }
    }

    /// Returns the numbers of all selected steps.
    pub fn all(&self, pick: Pick) -> Vec<usize> {
        let mut all = Vec::new();
        for number in self.steps() {
            if pick(self.step(number)) {
                all.push(number);
            }
        }
        all
    }

    /// Returns the number of the first selected step.
    pub fn first(&self, pick: Pick) -> Option<usize> {
        self.all(pick).first().copied()
    }

    /// Returns whether the first step is always complete before the second begins. This is so if one actor runs both
    /// steps in this order, or if the clone or a message enforces this order.
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        let is_parent = |number| number < self.plan.parent.len();
        let by_parent = is_parent(first);
        if by_parent == is_parent(second) {
            return first < second;
        }
        if by_parent && self.clone.is_some_and(|clone| first <= clone) {
            return true;
        }
        for (sync, places) in SYNCS.iter().zip(&self.syncs) {
            let (Some(parent), Some(init)) = *places else { continue };
            let is_between = match by_parent {
                true => sync.parent_sends && first <= parent && init <= second,
                false => sync.init_sends && first <= init && parent <= second,
            };
            if is_between {
                return true;
            }
        }
        false
    }

    /// Checks that the two actors send and receive the same messages in the same order. The only exception is init's
    /// exec, the last entry of `SYNCS`: the parent need not have a step that waits for it.
    pub fn messages_match(&self, finding: &mut Finding) {
        let mut init = self.init().filter(|number| sync_of(self.step(*number)).is_some());
        for parent_step in 0..self.plan.parent.len() {
            let Some(sync) = sync_of(self.step(parent_step)) else { continue };
            let init_step = init.next();
            if init_step.and_then(|init_step| sync_of(self.step(init_step))) != Some(sync) {
                finding.report(parent_step);
            }
        }
        for rest in init {
            if sync_of(self.step(rest)) != Some(END) {
                finding.report(rest);
            }
        }
    }
}

/// Returns the index in `SYNCS` of the message that a step sends or receives.
fn sync_of(step: Step<'_>) -> Option<usize> {
    SYNCS.iter().position(|sync| (sync.parent)(step) || (sync.init)(step))
}

impl Law {
    /// Evaluates this law on a plan.
    pub(super) fn eval(&self, view: &View<'_>, finding: &mut Finding) {
        let all = |pick: &Pick| view.all(*pick);
        match self {
            Self::Once(pick) => {
                let found = all(pick);
                finding.applies = true;
                if found.len() != 1 {
                    finding.holds = false;
                    finding.steps.extend(found);
                }
            }
            Self::Last(pick) => {
                Self::Once(*pick).eval(view, finding);
                for number in all(pick) {
                    if number + 1 != view.steps().end {
                        finding.report(number);
                    }
                }
            }
            Self::Before(first, second) => {
                let (early, late) = (all(first), all(second));
                finding.applies |= !early.is_empty() && !late.is_empty();
                for later in late {
                    for number in &early {
                        if *number != later && !view.is_before(*number, later) {
                            finding.report(*number);
                            finding.report(later);
                        }
                    }
                }
            }
            Self::Needs(each, one) => {
                let ones = all(one);
                for number in all(each) {
                    finding.applies = true;
                    if !ones.iter().any(|one| view.is_before(*one, number)) {
                        finding.report(number);
                    }
                }
            }
            Self::Then(first, next, between) => {
                for number in all(first) {
                    finding.applies = true;
                    let of_parent = view.step(number).parent.is_some();
                    let mut other = number + 1;
                    while between(view.step(other)) {
                        other += 1;
                    }
                    let found = view.step(other);
                    if !next(found) || found.parent.is_some() != of_parent {
                        finding.report(number);
                        finding.steps.extend(view.steps().contains(&other).then_some(other));
                    }
                }
            }
            Self::Each(each, good) => {
                for number in all(each) {
                    finding.applies = true;
                    if !good(view.step(number)) {
                        finding.report(number);
                    }
                }
            }
            Self::Own(own) => own(view, finding),
        }
    }
}
