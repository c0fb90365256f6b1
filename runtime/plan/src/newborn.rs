//! What init is born with where somebody else may be in its PID namespace: an exec, or a container that joins
//! one.
//!
//! Nobody keeps a process with CAP_SYS_PTRACE there, and no user namespace around it, from stopping init before
//! its first instruction. So the intermediate, which is in the host's PID namespace still, goes ahead into
//! the container, lets go of what is the host's, and only then makes init (`bare-birth`,
//! `intermediate-takes-inherited`).

use alloc::vec::Vec;

use sys::clone::CloneFlags;

use crate::step::{InitStep, ParentStep, Slot};

/// Gives the intermediate its part of init's steps, where the two do not join a user namespace: whoever is in there
/// may not trace a process whose program was executed outside. A procfs is needed by few; where init may
/// mount one, it has one of its own PID namespace, since from the host's a link leads to the host's
/// root.
pub(crate) fn settle(host: &mut [ParentStep], init: &mut Vec<InitStep>, is_confined: bool) {
    let intermediate = host.iter_mut().find_map(|step| match step {
        ParentStep::Clone { intermediate, flags, .. } => Some((intermediate.as_mut()?, *flags)),
        _ => None,
    });
    let Some((intermediate, flags)) =
        intermediate.filter(|(intermediate, _)| intermediate.user.is_none())
    else {
        return;
    };
    // Limits are for init: with few descriptors the intermediate could not make it.
    let limits = init.iter().take_while(|step| matches!(step, InitStep::LimitResources(_))).count();
    let inherited = init.iter().skip(limits).take_while(|step| step.is_inherited());
    let steps = inherited.count();
    if let Some(first) = init.get_mut(..limits + steps) {
        first.rotate_left(limits);
    }
    let first = init.iter().find_map(|step| match step {
        InitStep::CloseFds { from } => Some(*from),
        _ => None,
    });
    (intermediate.steps, intermediate.strips) = (steps, first);
    let may_mount = !is_confined && !flags.contains(CloneFlags::NEWUSER);
    let mut own = init.iter().skip(steps);
    if may_mount && own.any(|step| step.slots().any(|slot| slot == Slot::PROC)) {
        init.insert(steps, InitStep::OpenProc);
    }
}
