//! Descriptors by slot.

use alloc::vec::Vec;

use crate::Plan;
use crate::check::Rule;
use crate::check::law::{Finding, Law, Look};
use crate::check::pick::init;
use crate::step::{DeviceSource, InitStep, ParentStep, Slot, TimeNamespace};

/// Slots filled by the launcher's caller; the terminal's socket may come from a step instead.
const GIVEN: [Slot; 5] =
    [Slot::START, Slot::CONSOLE, Slot::CONTAINER, Slot::TEMPLATE, Slot::DEVICES];

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "slots-filled",
        what: "a slot is filled before it is used, by the parent before the clone",
        why: "init has copies of what is open at its birth, and no others",
        laws: &[Law::Own(slots_filled)],
    },
    Rule {
        name: "slots-not-used-after-release",
        what: "of the slots only that for start is used after init has let go of them",
        why: "their numbers may be other files by then",
        laws: &[Law::Own(unused_after_release)],
    },
    Rule {
        name: "own-proc-before-its-use",
        what: "where init has a procfs of its own, all its uses of one come after",
        why: "the host's, with links to its root, was closed at birth",
        laws: &[Law::Before(init!(InitStep::OpenProc), |step| {
            step.init.is_some_and(|step| step.slots().any(|slot| slot == Slot::PROC))
        })],
    },
];

impl ParentStep {
    /// Calls `fill` for the slots that the step fills.
    fn fills(&self, fill: &mut dyn FnMut(Slot)) {
        match self {
            Self::OpenProc => fill(Slot::PROC),
            Self::MakeUserNamespace { slot, .. }
            | Self::MakeTree { slot, .. }
            | Self::OpenNamespace { slot, .. }
            | Self::OpenRoot { slot, .. } => fill(*slot),
            Self::CloneTree(tree) => fill(tree.slot),
            Self::AssembleRootfs | Self::CopyLayers => fill(Slot::ROOT),
            Self::CloneDevice(DeviceSource { slot, .. }) => fill(*slot),
            Self::MakeNodes(made) => made.nodes.iter().for_each(|own| fill(own.host.slot)),
            Self::MakeNetwork => fill(Slot::NETWORK),
            Self::Undumpable
            | Self::RequireModule(_)
            | Self::MapLayers { .. }
            | Self::OpenLayers
            | Self::MakeUpper
            | Self::DetachLayers
            | Self::ConnectConsole { .. }
            | Self::CreateCgroup
            | Self::EnterPidNamespace { .. }
            | Self::EnterNamespace { .. }
            | Self::RunOn(_)
            | Self::Clone { .. }
            | Self::ReleaseScope { .. }
            | Self::MoveNetDevices { .. }
            | Self::MapIds(_)
            | Self::MapOwnId(_)
            | Self::MapIdsThrough(_)
            | Self::LimitResources(_)
            | Self::Admit
            | Self::AdjustOomScore(_)
            | Self::InheritOomScore(_)
            | Self::RestoreOomScore
            | Self::EnterResctrl
            | Self::RecordBirth
            | Self::RunHooks
            | Self::SendListener(_)
            | Self::AwaitReady
            | Self::Commit
            | Self::AwaitExec => {}
        }
    }

    /// Calls `read` for the slots that the step reads.
    fn reads(&self, read: &mut dyn FnMut(Slot)) {
        match self {
            Self::MakeUserNamespace { .. }
            | Self::MapIds(_)
            | Self::MapOwnId(_)
            | Self::AdjustOomScore(_)
            | Self::InheritOomScore(_)
            | Self::OpenRoot { .. }
            | Self::OpenNamespace { foreign: Some(_), .. } => read(Slot::PROC),
            Self::CloneTree(tree) => {
                tree.id_map.iter().for_each(|map| read(map.user_namespace));
            }
            Self::MakeNodes(made) => made.id_map.iter().for_each(|slot| read(*slot)),
            Self::MapLayers { user_namespace } | Self::MakeTree { user_namespace, .. } => {
                user_namespace.iter().for_each(|slot| read(*slot));
            }
            Self::EnterPidNamespace { slot } | Self::EnterNamespace { slot, .. } => read(*slot),
            Self::MoveNetDevices { namespace, .. } => {
                read(namespace.unwrap_or(Slot::PROC));
            }
            Self::Clone { intermediate, time, .. } => {
                if let Some(intermediate) = intermediate {
                    intermediate.first.iter().flatten().for_each(|(slot, _)| read(*slot));
                    intermediate.user.iter().chain(&intermediate.pid).for_each(|slot| read(*slot));
                }
                if let Some(TimeNamespace::Joined(slot)) = time {
                    read(*slot);
                }
            }
            Self::Undumpable
            | Self::OpenProc
            | Self::RequireModule(_)
            | Self::OpenLayers
            | Self::MakeUpper
            | Self::AssembleRootfs
            | Self::DetachLayers
            | Self::CopyLayers
            | Self::CloneDevice(_)
            | Self::OpenNamespace { foreign: None, .. }
            | Self::ConnectConsole { .. }
            | Self::CreateCgroup
            | Self::RunOn(_)
            | Self::ReleaseScope { .. }
            | Self::MakeNetwork
            | Self::MapIdsThrough(_)
            | Self::LimitResources(_)
            | Self::Admit
            | Self::RestoreOomScore
            | Self::EnterResctrl
            | Self::RecordBirth
            | Self::RunHooks
            | Self::SendListener(_)
            | Self::AwaitReady
            | Self::Commit
            | Self::AwaitExec => {}
        }
    }
}

/// The slots filled so far.
struct Filled(Vec<bool>);

impl Filled {
    fn new(plan: &Plan) -> Self {
        let mut filled = Self(alloc::vec![false; usize::from(plan.slots)]);
        for slot in GIVEN {
            filled.set(slot);
        }
        filled
    }

    /// Marks a slot as filled; returns false if the table has no such slot.
    fn set(&mut self, slot: Slot) -> bool {
        let place = self.0.get_mut(usize::from(slot.0));
        place.map(|place| *place = true).is_some()
    }

    fn has(&self, slot: Slot) -> bool {
        self.0.get(usize::from(slot.0)).is_some_and(|place| *place)
    }
}

fn slots_filled(look: &Look<'_>, finding: &mut Finding) {
    finding.applies = true;
    let mut filled = Filled::new(look.plan);
    let mut is_born = false;
    for (number, step) in look.plan.parent.iter().enumerate() {
        let mut is_good = true;
        step.reads(&mut |slot| is_good &= filled.has(slot));
        step.fills(&mut |slot| is_good &= filled.set(slot) && !is_born);
        is_born |= matches!(step, ParentStep::Clone { .. });
        if !is_good {
            finding.blame(number);
        }
    }
    for number in look.init() {
        let Some(step) = look.step(number).init else { continue };
        for slot in step.slots() {
            // An existing container already has its root.
            let is_there = slot == Slot::ROOT && matches!(step, InitStep::OpenConsole { .. });
            if !is_there && !filled.has(slot) {
                finding.blame(number);
            }
        }
        let slot = match step {
            InitStep::OpenProc => Slot::PROC,
            InitStep::CloneTree(tree) => tree.slot,
            InitStep::CloneDevice(device) => device.slot,
            _ => continue,
        };
        if !filled.set(slot) {
            finding.blame(number);
        }
    }
}

fn unused_after_release(look: &Look<'_>, finding: &mut Finding) {
    let Some(released) = look.first(init!(InitStep::ReleaseDescriptors { .. })) else { return };
    finding.applies = true;
    for number in released..look.steps().end {
        if let Some(step) = look.step(number).init
            && step.slots().any(|slot| slot != Slot::START)
        {
            finding.blame(number);
        }
    }
}
