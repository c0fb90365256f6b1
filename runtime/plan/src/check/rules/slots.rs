//! Descriptors by slot.

use alloc::vec::Vec;

use crate::Plan;
use crate::check::Rule;
use crate::check::law::{Finding, Law, View};
use crate::check::pick::init;
use crate::step::{DeviceSource, InitStep, MountFs, ParentStep, Slot, TimeNamespace};

/// Slots that the launcher's caller fills. The slot of the console socket may also be filled by a step.
const GIVEN: [Slot; 8] = [
    Slot::START,
    Slot::CONSOLE,
    Slot::CONTAINER,
    Slot::BLANK,
    Slot::DEVICES,
    Slot::STAND_IN,
    Slot::REQUESTS,
    Slot::BUS,
];
/// Slots that stay open when init releases its descriptors.
const KEPT: [Slot; 3] = [Slot::START, Slot::STAND_IN, Slot::REQUESTS];

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "slots-filled",
        what: "a slot is filled before it is used; the parent fills its slots before the clone",
        why: "init inherits only descriptors that are open when it is created",
        laws: &[Law::Own(slots_filled)],
    },
    Rule {
        name: "slots-not-used-after-release",
        what: "after init has closed its slots, only those of start, stand-in and template are used",
        why: "the descriptor numbers may refer to other files by then",
        laws: &[Law::Own(unused_after_release)],
    },
    Rule {
        name: "own-proc-before-its-use",
        what: "if init opens a procfs of its own, all its uses of procfs follow",
        why: "the host's procfs, with links to the host's root, is closed at init's creation",
        laws: &[Law::Before(init!(InitStep::OpenProc), |step| {
            step.init.is_some_and(|step| step.slots().any(|slot| slot == Slot::PROC))
        })],
    },
];

/// The action of a step on a slot.
#[derive(Clone, Copy)]
enum Touch {
    Read(Slot),
    Fill(Slot),
}

impl ParentStep {
    /// Calls `touch` for the slots that the step reads, and then for those that it fills.
    fn touches(&self, touch: &mut dyn FnMut(Touch)) {
        match self {
            Self::OpenProc => touch(Touch::Fill(Slot::PROC)),
            Self::MakeUserNamespace { slot, .. } | Self::OpenRoot { slot, .. } => {
                touch(Touch::Read(Slot::PROC));
                touch(Touch::Fill(*slot));
            }
            Self::OpenNamespace { slot, foreign, .. } => {
                foreign.iter().for_each(|_| touch(Touch::Read(Slot::PROC)));
                touch(Touch::Fill(*slot));
            }
            Self::MapIds(_)
            | Self::MapOwnId(_)
            | Self::VerifyIds(_)
            | Self::AdjustOomScore(_)
            | Self::InheritOomScore(_) => touch(Touch::Read(Slot::PROC)),
            Self::CloneTree(tree) => {
                tree.id_map.iter().for_each(|map| touch(Touch::Read(map.user_namespace)));
                touch(Touch::Fill(tree.slot));
            }
            Self::MakeNodes(made) => {
                made.id_map.iter().for_each(|slot| touch(Touch::Read(*slot)));
                made.nodes.iter().for_each(|own| touch(Touch::Fill(own.host.slot)));
            }
            Self::MapLayers { user_namespace } => {
                user_namespace.iter().for_each(|slot| touch(Touch::Read(*slot)));
            }
            Self::MakeTree { slot, user_namespace, .. } => {
                user_namespace.iter().for_each(|slot| touch(Touch::Read(*slot)));
                touch(Touch::Fill(*slot));
            }
            Self::EnterPidNamespace { slot } | Self::EnterNamespace { slot, .. } => {
                touch(Touch::Read(*slot));
            }
            Self::MoveNetDevices { namespace, .. } => {
                touch(Touch::Read(namespace.unwrap_or(Slot::PROC)));
            }
            Self::Clone { intermediate, time, .. } => {
                let mut read = |slot: &Slot| touch(Touch::Read(*slot));
                if let Some(intermediate) = intermediate {
                    intermediate.first.iter().flatten().for_each(|(slot, _)| read(slot));
                    intermediate.user.iter().chain(&intermediate.pid).for_each(&mut read);
                }
                if let Some(TimeNamespace::Joined(slot)) = time {
                    read(slot);
                }
            }
            Self::AssembleRootfs | Self::CopyLayers => touch(Touch::Fill(Slot::ROOT)),
            Self::CloneDevice(DeviceSource { slot, .. }) => touch(Touch::Fill(*slot)),
            Self::MakeNetwork => touch(Touch::Fill(Slot::NETWORK)),
            Self::LeaveOutPins => touch(Touch::Read(Slot::PROC)),
            Self::Undumpable
            | Self::RequireModule(_)
            | Self::OpenLayers
            | Self::MakeUpper
            | Self::DetachLayers
            | Self::ConnectConsole { .. }
            | Self::CreateCgroup
            | Self::RunOn(_)
            | Self::ReleaseScope { .. }
            | Self::AwaitScope(_)
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

fn slots_filled(view: &View<'_>, finding: &mut Finding) {
    finding.applies = true;
    let mut filled = Filled::new(view.plan);
    let mut is_born = false;
    for (number, step) in view.plan.parent.iter().enumerate() {
        let mut is_good = true;
        step.touches(&mut |touch| {
            is_good &= match touch {
                Touch::Read(slot) => filled.has(slot),
                Touch::Fill(slot) => filled.set(slot) && !is_born,
            };
        });
        is_born |= matches!(step, ParentStep::Clone { .. });
        if !is_good {
            finding.report(number);
        }
    }
    for number in view.init() {
        let Some(step) = view.step(number).init else { continue };
        for slot in step.slots() {
            // An existing container already has its root.
            let is_there = slot == Slot::ROOT && matches!(step, InitStep::OpenConsole { .. });
            if !is_there && !filled.has(slot) {
                finding.report(number);
            }
        }
        let slot = match step {
            InitStep::OpenProc => Slot::PROC,
            InitStep::CloneTree(tree) => tree.slot,
            InitStep::CloneDevice(device) => device.slot,
            InitStep::OpenMount { slot, .. }
            | InitStep::MakeTree { slot, .. }
            | InitStep::MountFs(MountFs { kept: Some(slot), .. }) => *slot,
            _ => continue,
        };
        if !filled.set(slot) {
            finding.report(number);
        }
    }
}

fn unused_after_release(view: &View<'_>, finding: &mut Finding) {
    let Some(released) = view.first(init!(InitStep::ReleaseDescriptors { .. })) else { return };
    finding.applies = true;
    for number in released..view.steps().end {
        if let Some(step) = view.step(number).init
            && step.slots().any(|slot| !KEPT.contains(&slot))
        {
            finding.report(number);
        }
    }
}
