//! Compiles an additional process of a running container into a plan.

use alloc::string::{String, ToString};

use init::step::StateText;
use spec::Process;
use sys::clone::CloneFlags;

use crate::builder::Builder;
use crate::compile::open_sources;
use crate::listener;
use crate::process::{self, ProcessContext};
use crate::request::{Console, ExecRequest};
use crate::step::{InitStep, ParentStep, WithoutNull};
use crate::{CgroupPlan, Error, Plan, ResctrlPlan, check, clone, confinement, keep};

/// Compiles an additional process of a running container.
///
/// # Errors
/// Fails if a value is invalid; the error names the value.
pub fn compile(process: &Process<'_>, request: ExecRequest<'_>) -> Result<Plan, Error> {
    if !request.keep_groups {
        request.caller.check_groups(&process.user.additional_gids)?;
    }
    let mut builder = Builder::new(request.caller.is_confined());
    open_sources(&mut builder, process, request.console, &request.caller, true)?;
    confinement::require(&mut builder, process, None);
    builder.parent(ParentStep::CreateCgroup);
    let mut limits = process::limits(process)?;
    let room = clone::room(builder.slots, request.preserve_fds);
    let low_limits = clone::low_limits(&mut limits, room);
    clone::join_all(&mut builder, &request, process, limits)?;
    if request.namespaces.contains(CloneFlags::NEWUSER) {
        builder.init(InitStep::BecomeRoot);
    }
    builder.init(InitStep::NewSession);
    if request.keyring {
        confinement::compile_keyring(&mut builder, request.id, process)?;
    }
    if process.terminal {
        builder.init(InitStep::OpenConsole {
            size: request.terminal_size.or(process::console_size(process)),
            uid: process.user.uid,
            bind: false,
            carried: matches!(request.console, Some(Console::Foreground)),
        });
    }
    process::compile_oom_score(&mut builder, process, &request.caller);
    if request.resctrl.is_some() {
        builder.parent(ParentStep::EnterResctrl);
    }
    builder.parent(ParentStep::RecordBirth);
    let capabilities = process::limit_capabilities(&mut builder, process);
    let context = ProcessContext {
        preserve_fds: request.preserve_fds,
        may_lack_setgroups: request.namespaces.contains(CloneFlags::NEWUSER)
            || request.caller.setgroups_denied,
        keep_groups: request.keep_groups,
        seccomp: request.filter.is_some(),
        capabilities,
        without_null: WithoutNull::Private,
        execution: &request.execution,
    };
    process::compile_identity(&mut builder, process, context)?;
    if !low_limits.is_empty() {
        builder.init(InitStep::LimitResources(keep::all(low_limits)));
    }
    let mut state = String::new();
    if let Some(filter) = request.filter.as_ref().filter(|filter| filter.has_listener()) {
        state = listener::compile_exec(&mut builder, process, filter, request.agent)?;
    }
    builder.init(InitStep::AwaitCommit);
    builder.parent(ParentStep::Commit);
    builder.parent(ParentStep::AwaitExec);
    if request.caller.is_confined() && process.oom_score_adj.is_some() {
        builder.parent(ParentStep::RestoreOomScore);
    }
    process::compile_exec(&mut builder, process, request.filter.as_ref(), &[])?;
    let warnings = core::mem::take(&mut builder.warnings);
    let section = builder.take_section();
    let (parent, init, slots) = builder.finish([section.parent], [section.init])?;
    let or_that_of = (!request.cgroup_is_asked_for).then_some(request.init);
    Ok(check::finished(Plan {
        id: request.id.to_string(),
        parent,
        init,
        slots,
        descriptors: None,
        warnings,
        runtime_hooks: Default::default(),
        state: StateText::from_head(keep::text(state)),
        rootfs: None,
        cgroup: request.cgroup.map(|location| CgroupPlan::Join { location, or_that_of }),
        execution: request.execution,
        resctrl: request.resctrl.map(|group| ResctrlPlan::Join { group }),
        filter: request.filter,
    }))
}
