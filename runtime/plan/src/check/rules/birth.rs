//! Rules for the creation of init, and for the properties that init inherits.

use sys::clone::CloneFlags;

use crate::check::Rule;
use crate::check::law::{Finding, Law, View};
use crate::check::pick::{init_takes, parent};
use crate::step::{InitStep, Intermediate, Memory, ParentStep};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "one-clone",
        what: "the parent calls clone(2) once",
        why: "the record, the messages and the clean-up support only one init",
        laws: &[Law::Once(parent!(ParentStep::Clone { .. }))],
    },
    Rule {
        name: "alone-in-shared-memory",
        what: "init shares memory only as the first process of a new PID namespace, without hooks",
        why: "other processes in the namespace could trace init, and so write to the parent",
        laws: &[Law::Own(alone_in_shared_memory)],
    },
    Rule {
        name: "time-in-own-memory",
        what: "a process that joins a time or user namespace shares memory with no other process",
        why: "otherwise setns(2) fails (EUSERS, EINVAL)",
        laws: &[
            Law::Each(
                parent!(
                    ParentStep::Clone { time: Some(_), intermediate: None, .. }
                        | ParentStep::Clone {
                            intermediate: Some(Intermediate { time: true, .. }),
                            ..
                        }
                ),
                parent!(ParentStep::Clone { memory: Memory::Copied, .. }),
            ),
            Law::Each(
                parent!(ParentStep::Clone {
                    intermediate: Some(Intermediate { user: Some(_), .. }),
                    ..
                }),
                parent!(ParentStep::Clone { memory: Memory::Copied, .. }),
            ),
        ],
    },
    Rule {
        name: "intermediate-takes-inherited",
        what: "intermediates run only steps that init inherits, and only they join PID namespaces",
        why: "init would not get other effects; setns(2) of a PID namespace affects only children",
        laws: &[Law::Own(relay_steps)],
    },
    Rule {
        name: "bare-birth",
        what: "an intermediate closes descriptors unused by init, unless it joins a user namespace",
        why: "others may stop init before its first instruction, and inspect it (CVE-2016-9962)",
        laws: &[Law::Each(
            parent!(ParentStep::Clone { intermediate: Some(Intermediate { user: None, .. }), .. }),
            parent!(ParentStep::Clone {
                intermediate: Some(Intermediate { strips: Some(_), .. }),
                ..
            }),
        )],
    },
];

fn alone_in_shared_memory(view: &View<'_>, finding: &mut Finding) {
    let shared =
        view.first(parent!(ParentStep::Clone { memory: Memory::Shared, intermediate: None, .. }));
    let Some(clone) = shared else { return };
    finding.applies = true;
    if let Some(ParentStep::Clone { flags, .. }) = view.step(clone).parent
        && !flags.contains(CloneFlags::NEWPID)
    {
        finding.report(clone);
    }
    let others = view.all(|step| {
        init_takes(step)
            || match step.init {
                Some(InitStep::MountFs(mount)) => mount.copy_up,
                Some(
                    InitStep::RunHooks { .. } | InitStep::OpenProc | InitStep::EnterTime { .. },
                ) => true,
                _ => false,
            }
    });
    for number in others {
        finding.report(number);
    }
}

fn relay_steps(view: &View<'_>, finding: &mut Finding) {
    let mut steps = 0;
    for step in &view.plan.parent {
        if let ParentStep::Clone { intermediate: Some(intermediate), .. } = step {
            steps = intermediate.steps;
        }
    }
    let by_init = view.init().start + steps;
    finding.applies = steps > 0;
    for number in view.init() {
        let Some(step) = view.step(number).init else { continue };
        let for_children = match step {
            InitStep::JoinNamespace { kind, .. } => kind.contains(CloneFlags::NEWPID),
            InitStep::JoinProcess { kinds, .. } => kinds.contains(CloneFlags::NEWPID),
            _ => false,
        };
        finding.applies |= for_children;
        if if number < by_init { !step.is_inherited() } else { for_children } {
            finding.report(number);
        }
    }
}
