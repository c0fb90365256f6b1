//! What a rule can say of the steps of a plan, and how it is looked at.

use alloc::vec::Vec;
use core::ops::Range;

use crate::Plan;
use crate::check::pick::{init, parent};
use crate::step::{InitStep, ParentStep};

/// A step, by one of the two actors.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// Of the parent.
    pub parent: Option<&'a ParentStep>,
    /// Of init.
    pub init: Option<&'a InitStep>,
}

/// Which steps are meant.
pub type Pick = fn(Step<'_>) -> bool;

/// A part of a rule. *Before* means: always, whatever the two actors' pace ([`Look::is_before`]).
#[derive(Debug)]
pub enum Law {
    /// There is one such step.
    Once(Pick),
    /// There is one such step, and it is the last of init's.
    Last(Pick),
    /// All of the first are before all of the second.
    Before(Pick, Pick),
    /// Each of the first has one of the second before it.
    Needs(Pick, Pick),
    /// After each of the first comes one of the second, with nothing between them but the third.
    Then(Pick, Pick, Pick),
    /// Each of the first is one of the second as well.
    Each(Pick, Pick),
    /// Something else.
    Own(fn(&Look<'_>, &mut Finding)),
}

/// What the laws of a rule have found in a plan.
#[derive(Debug)]
pub struct Finding {
    /// The plan has what the rule is about.
    pub applies: bool,
    /// The plan follows it.
    pub holds: bool,
    /// The steps that break it.
    pub steps: Vec<usize>,
}

impl Finding {
    /// A step that breaks the rule.
    pub fn blame(&mut self, number: usize) {
        self.holds = false;
        self.steps.push(number);
    }
}

/// Where one actor speaks and the other one listens.
struct Meeting {
    parent: Pick,
    init: Pick,
    parent_speaks: bool,
    init_speaks: bool,
}

static MEETINGS: [Meeting; 6] = [
    Meeting {
        parent: parent!(ParentStep::Admit),
        init: init!(InitStep::AwaitAdmission),
        parent_speaks: true,
        init_speaks: false,
    },
    Meeting {
        parent: parent!(ParentStep::RunHooks),
        init: init!(InitStep::AwaitHooks),
        parent_speaks: true,
        init_speaks: true,
    },
    Meeting {
        parent: parent!(ParentStep::SendListener(_)),
        init: init!(InitStep::HandOverListener),
        parent_speaks: true,
        init_speaks: true,
    },
    Meeting {
        parent: parent!(ParentStep::AwaitReady),
        init: init!(InitStep::AnnounceReady),
        parent_speaks: false,
        init_speaks: true,
    },
    Meeting {
        parent: parent!(ParentStep::Commit),
        init: init!(InitStep::AwaitCommit),
        parent_speaks: true,
        init_speaks: false,
    },
    Meeting {
        parent: parent!(ParentStep::AwaitExec),
        init: init!(InitStep::Exec { .. }),
        parent_speaks: false,
        init_speaks: true,
    },
];

/// The number of the last of them, init's exec.
const END: usize = MEETINGS.len() - 1;

/// A plan that is looked at. Its steps are numbered as of one list, the parent's before init's.
pub struct Look<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The parent's step that makes init.
    clone: Option<usize>,
    /// The steps of each meeting.
    meetings: [(Option<usize>, Option<usize>); MEETINGS.len()],
}

impl<'a> Look<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut look = Self { plan, clone: None, meetings: [(None, None); MEETINGS.len()] };
        look.clone = look.first(parent!(ParentStep::Clone { .. }));
        for (number, meeting) in MEETINGS.iter().enumerate() {
            look.meetings[number] = (look.first(meeting.parent), look.first(meeting.init));
        }
        look
    }

    /// The numbers of all steps.
    pub fn steps(&self) -> Range<usize> {
        0..self.plan.parent.len() + self.plan.init.len()
    }

    /// The numbers of init's steps.
    pub fn init(&self) -> Range<usize> {
        self.plan.parent.len()..self.steps().end
    }

    /// The step of a number.
    pub fn step(&self, number: usize) -> Step<'a> {
        let init = number.checked_sub(self.plan.parent.len());
        match init {
            None => Step { parent: self.plan.parent.get(number), init: None },
            Some(index) => Step { parent: None, init: self.plan.init.get(index) },
        }
    }

    /// The numbers of such steps.
    pub fn all(&self, pick: Pick) -> Vec<usize> {
        let mut all = Vec::new();
        for number in self.steps() {
            if pick(self.step(number)) {
                all.push(number);
            }
        }
        all
    }

    /// The number of the first such step.
    pub fn first(&self, pick: Pick) -> Option<usize> {
        self.all(pick).first().copied()
    }

    /// Whether one step is always done when the other one is taken: by the same actor, by the clone between them, or
    /// by a word between them.
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        let is_parent = |number| number < self.plan.parent.len();
        let by_parent = is_parent(first);
        if by_parent == is_parent(second) {
            return first < second;
        }
        if by_parent && self.clone.is_some_and(|clone| first <= clone) {
            return true;
        }
        for (meeting, places) in MEETINGS.iter().zip(&self.meetings) {
            let (Some(parent), Some(init)) = *places else { continue };
            let is_between = match by_parent {
                true => meeting.parent_speaks && first <= parent && init <= second,
                false => meeting.init_speaks && first <= init && parent <= second,
            };
            if is_between {
                return true;
            }
        }
        false
    }

    /// Whether the words of both actors are the same, in the same order. The end of a program need not be heard.
    pub fn words_match(&self, finding: &mut Finding) {
        let mut init = self.init().filter(|number| meeting_of(self.step(*number)).is_some());
        for heard in 0..self.plan.parent.len() {
            let Some(meeting) = meeting_of(self.step(heard)) else { continue };
            let said = init.next();
            if said.and_then(|said| meeting_of(self.step(said))) != Some(meeting) {
                finding.blame(heard);
            }
        }
        for rest in init {
            if meeting_of(self.step(rest)) != Some(END) {
                finding.blame(rest);
            }
        }
    }
}

/// Which meeting a step is half of.
fn meeting_of(step: Step<'_>) -> Option<usize> {
    MEETINGS.iter().position(|meeting| (meeting.parent)(step) || (meeting.init)(step))
}

impl Law {
    /// Looks at a plan.
    pub(super) fn weigh(&self, look: &Look<'_>, finding: &mut Finding) {
        let all = |pick: &Pick| look.all(*pick);
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
                Self::Once(*pick).weigh(look, finding);
                for number in all(pick) {
                    if number + 1 != look.steps().end {
                        finding.blame(number);
                    }
                }
            }
            Self::Before(first, second) => {
                let (early, late) = (all(first), all(second));
                finding.applies |= !early.is_empty() && !late.is_empty();
                for later in late {
                    for number in &early {
                        if *number != later && !look.is_before(*number, later) {
                            finding.blame(*number);
                            finding.blame(later);
                        }
                    }
                }
            }
            Self::Needs(each, one) => {
                let ones = all(one);
                for number in all(each) {
                    finding.applies = true;
                    if !ones.iter().any(|one| look.is_before(*one, number)) {
                        finding.blame(number);
                    }
                }
            }
            Self::Then(first, next, between) => {
                for number in all(first) {
                    finding.applies = true;
                    let of_parent = look.step(number).parent.is_some();
                    let mut other = number + 1;
                    while between(look.step(other)) {
                        other += 1;
                    }
                    let found = look.step(other);
                    if !next(found) || found.parent.is_some() != of_parent {
                        finding.blame(number);
                        finding.steps.extend(look.steps().contains(&other).then_some(other));
                    }
                }
            }
            Self::Each(each, good) => {
                for number in all(each) {
                    finding.applies = true;
                    if !good(look.step(number)) {
                        finding.blame(number);
                    }
                }
            }
            Self::Own(own) => own(look, finding),
        }
    }
}
