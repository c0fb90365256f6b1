//! Predicates that select steps for rules.

use crate::check::law::Step;
use crate::step::{InitStep, ParentStep, Slot};
use sys::clone::CloneFlags;

/// Selects steps of the parent.
macro_rules! parent {
    ($pattern:pat $(if $guard:expr)?) => {
        (|step: $crate::check::law::Step<'_>| matches!(step.parent, Some($pattern) $(if $guard)?))
            as $crate::check::law::Pick
    };
}

/// Selects steps of init.
macro_rules! init {
    ($pattern:pat $(if $guard:expr)?) => {
        (|step: $crate::check::law::Step<'_>| matches!(step.init, Some($pattern) $(if $guard)?))
            as $crate::check::law::Pick
    };
}

pub(super) use {init, parent};

/// Selects steps in which the parent opens or creates a mount source of the host.
pub fn parent_takes(step: Step<'_>) -> bool {
    matches!(
        step.parent,
        Some(
            ParentStep::CloneTree(_)
                | ParentStep::MakeTree { .. }
                | ParentStep::CloneDevice(_)
                | ParentStep::MakeNodes(_)
                | ParentStep::MapLayers { .. }
                | ParentStep::OpenLayers
                | ParentStep::MakeUpper
                | ParentStep::AssembleRootfs
                | ParentStep::DetachLayers
                | ParentStep::CopyLayers
        )
    )
}

/// Selects steps in which init opens a mount source of the host.
pub fn init_takes(step: Step<'_>) -> bool {
    matches!(step.init, Some(InitStep::CloneTree(_) | InitStep::CloneDevice(_)))
}

/// Selects steps in which either actor opens a mount source.
pub fn takes(step: Step<'_>) -> bool {
    parent_takes(step) || init_takes(step)
}

/// Selects steps that mount something.
pub fn mounts(step: Step<'_>) -> bool {
    matches!(
        step.init,
        Some(
            InitStep::AttachRoot { .. }
                | InitStep::AttachTree { .. }
                | InitStep::AttachBind(_)
                | InitStep::MountFs(_)
        )
    )
}

/// Selects steps that create something in the root filesystem.
pub fn fills(step: Step<'_>) -> bool {
    mounts(step)
        || matches!(
            step.init,
            Some(
                InitStep::MakeDevices { .. }
                    | InitStep::MakeLinks { .. }
                    | InitStep::MakeDirectory { .. }
            )
        )
}

/// Selects steps that make the root filesystem the root.
pub fn enters_root(step: Step<'_>) -> bool {
    matches!(
        step.init,
        Some(InitStep::PivotRoot | InitStep::ChangeRoot { .. } | InitStep::EnterRoot)
    )
}

/// Selects steps that make the root filesystem the root, also for processes added to a container.
pub fn gets_root(step: Step<'_>) -> bool {
    let joined = match step.init {
        Some(InitStep::JoinProcess { kinds, .. }) => kinds.contains(CloneFlags::NEWNS),
        Some(InitStep::EnterRootOf { .. }) => true,
        _ => false,
    };
    joined || enters_root(step)
}

/// Selects steps in which init joins namespaces shared with others.
pub fn joins(step: Step<'_>) -> bool {
    match step.init {
        Some(InitStep::JoinNamespace { slot, .. }) => *slot != Slot::TEMPLATE,
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
    matches!(step.init, Some(InitStep::MaskPath { .. } | InitStep::ReadonlyPath { .. }))
}

/// Selects steps that need privileges which are lost with the change of user.
pub fn sets_up(step: Step<'_>) -> bool {
    fills(step)
        || gets_root(step)
        || protects(step)
        || container_hooks(step)
        || matches!(
            step.init,
            Some(
                InitStep::JoinCgroups
                    | InitStep::JoinNamespace { .. }
                    | InitStep::JoinNetwork
                    | InitStep::BecomeRoot
                    | InitStep::Unshare(_)
                    | InitStep::LoopbackUp
                    | InitStep::SetHostname(_)
                    | InitStep::SetDomainname(_)
                    | InitStep::OpenConsole { .. }
                    | InitStep::FreezeTmpfs { .. }
                    | InitStep::Reconfigure { .. }
                    | InitStep::SetMountAttr { .. }
                    | InitStep::WriteSysctl { .. }
                    | InitStep::SetScheduler(_)
                    | InitStep::SetIoPriority(_)
                    | InitStep::SetMemoryPolicy { .. }
            )
        )
}
