//! Predicates that select steps for rules.

use sys::clone::CloneFlags;

use crate::check::nature::{Nature, is_source};
use crate::step::{InitStep, ParentStep, Slot};

/// A step of the parent or of init: exactly one of the two fields is set.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The step, if it is the parent's.
    pub parent: Option<&'a ParentStep>,
    /// The step, if it is init's.
    pub init: Option<&'a InitStep>,
}

/// A predicate that selects steps.
pub type Pick = fn(Step<'_>) -> bool;

/// Selects steps of the parent.
macro_rules! parent {
    ($pattern:pat $(if $guard:expr)?) => {
        (|step: $crate::check::pick::Step<'_>| matches!(step.parent, Some($pattern) $(if $guard)?))
            as $crate::check::pick::Pick
    };
}

/// Selects steps of init.
macro_rules! init {
    ($pattern:pat $(if $guard:expr)?) => {
        (|step: $crate::check::pick::Step<'_>| matches!(step.init, Some($pattern) $(if $guard)?))
            as $crate::check::pick::Pick
    };
}

pub(super) use {init, parent};

/// Returns the kind of a step of init; for a step of the parent, returns [`Nature::Other`].
fn nature(step: Step<'_>) -> Nature<'_> {
    step.init.map_or(Nature::Other, Nature::of)
}

/// Selects steps in which the parent opens or creates a mount source of the host.
pub fn parent_takes(step: Step<'_>) -> bool {
    step.parent.is_some_and(is_source)
}

/// Selects steps in which init opens a mount source of the host.
pub fn init_takes(step: Step<'_>) -> bool {
    nature(step) == Nature::Source
}

/// Selects steps in which either actor opens a mount source.
pub fn takes(step: Step<'_>) -> bool {
    parent_takes(step) || init_takes(step)
}

/// Selects steps that mount something.
pub fn mounts(step: Step<'_>) -> bool {
    nature(step).is_mount()
}

/// Selects steps that create something in the root filesystem.
pub fn fills(step: Step<'_>) -> bool {
    nature(step).is_filling()
}

/// Selects steps in which init enters a network namespace that it was not created in.
pub fn enters_network(step: Step<'_>) -> bool {
    init!(InitStep::JoinNetwork)(step)
        || init!(InitStep::Unshare(kinds) if kinds.contains(CloneFlags::NEWNET))(step)
}

/// Selects steps that make the root filesystem the root.
pub fn enters_root(step: Step<'_>) -> bool {
    nature(step) == Nature::Root
}

/// Selects steps that make the root filesystem the root, or that enter the root of an existing container.
pub fn gets_root(step: Step<'_>) -> bool {
    matches!(nature(step), Nature::Root | Nature::RootOfContainer)
}

/// Selects steps in which init joins namespaces that other processes use.
pub fn joins(step: Step<'_>) -> bool {
    match step.init {
        Some(InitStep::JoinNamespace { slot, .. }) => *slot != Slot::BLANK,
        Some(InitStep::JoinProcess { .. }) => true,
        _ => false,
    }
}

/// Selects steps in which the parent enters a namespace for the duration of the clone.
pub fn goes_elsewhere(step: Step<'_>) -> bool {
    matches!(
        step.parent,
        Some(ParentStep::EnterPidNamespace { .. } | ParentStep::EnterNamespace { .. })
    )
}

/// Selects steps that run hooks between the mounts and the change of root.
pub fn container_hooks(step: Step<'_>) -> bool {
    matches!(step.init, Some(InitStep::RunHooks { hooks, .. }) if hooks.kind == "createContainer")
}

/// Selects steps that run hooks between `start` and the program.
pub fn start_hooks(step: Step<'_>) -> bool {
    matches!(step.init, Some(InitStep::RunHooks { hooks, .. }) if hooks.kind == "startContainer")
}

/// Selects the step in which init executes the program.
pub fn executes(step: Step<'_>) -> bool {
    matches!(step.init, Some(InitStep::Exec { .. }))
}

/// Selects steps that make a path masked or read-only.
pub fn protects(step: Step<'_>) -> bool {
    nature(step) == Nature::Cover
}

/// Selects steps that require privileges which init loses when it changes the user.
pub fn sets_up(step: Step<'_>) -> bool {
    fills(step)
        || gets_root(step)
        || protects(step)
        || container_hooks(step)
        || nature(step) == Nature::Privileged
}
