//! Ensures that init inherits as little as possible of the host if other processes may be in its PID namespace: in an
//! exec, or in a container that joins an existing PID namespace.
//!
//! A process with CAP_SYS_PTRACE in that PID namespace could stop init before init's first instruction. (A process in a
//! user namespace could not.) So the intermediate, which is still in the host's PID namespace, first enters the
//! container, closes all descriptors of the host, and only then creates init (rules `bare-birth` and
//! `intermediate-takes-inherited`).
//!
//! A tracer in that PID namespace still sees init's standard streams, a socket to the command (two with a terminal),
//! its root, working directory, namespaces and cgroups, root's capabilities until init sets its own, the command's
//! environment and configuration in its copy of memory, and dayfly's read-only executable. The init of a container that
//! joins a PID namespace also has the trees that it will mount. No path leads from them to the host. It holds a
//! directory of the host in two cases: the root, in the classic way; and the procfs, with a new user namespace or a
//! confined caller, for device links, sysctls and labels. On 6.18, runc 1.5.1 exposes sockets, pipes and its sealed
//! executable, and crun 1.28 the host's directory of the cgroup.

use alloc::vec::Vec;

use sys::clone::CloneFlags;

use crate::step::{InitStep, ParentStep, Slot};

/// Moves init's first steps to the intermediate, unless a user namespace is joined. (Processes in a
/// user namespace may not trace a process whose program was executed outside.) In a few
/// configurations, a later step needs a procfs. The host's procfs contains a link to the host's
/// root, so init mounts a procfs of its own PID namespace, if it has permission.
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
    // Resource limits apply to init only: with a low limit on descriptors the intermediate could not create init.
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
