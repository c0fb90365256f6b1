//! The end of a plan: the steps from the release of descriptors that init no longer needs to the exec of the program.

use crate::builder::Builder;
use crate::context::Context;
use crate::fast_path::FastPaths;
use crate::request::ProgramStart;
use crate::step::{InitStep, Memory, ParentStep, ScopeState};
use crate::{Error, hooks, listener, process};

/// Adds the last steps. `is_stripped` is whether an intermediate has closed the descriptors that init does not need.
pub fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    is_stripped: bool,
) -> Result<(), Error> {
    let Context { spec, request, process, .. } = context;
    let filter = context.filter.as_ref();
    let listens = filter.filter(|filter| filter.has_listener());
    let from = 3 + request.preserve_fds;
    // `released-before-start`
    // An init that gets a descriptor with the commit needs room below a low limit of descriptors.
    let is_forked = request.program_start == ProgramStart::Forked;
    if request.wait_for_start || listens.is_some() || is_forked {
        builder.init(InitStep::ReleaseDescriptors { from });
    }
    if let (Some(filter), Some(profile)) = (listens, context.linux.seccomp) {
        // `listener-handed-over`
        listener::compile(builder, process, filter, profile.get())?;
    }
    compile_handshake(builder, context, is_stripped);
    if !request.wait_for_start
        && listens.is_none()
        && !is_forked
        && !spec.hooks.start_container.is_empty()
    {
        builder.init(InitStep::ReleaseDescriptors { from });
    }
    let of_process = || process::environment(&process.env, &request.extra_env);
    let hooks = hooks::compile("startContainer", &spec.hooks.start_container, of_process)?;
    let confined = filter.filter(|filter| !filter.has_listener());
    let confined = confined.map(|_| process::confined(process));
    hooks::add(builder, hooks, process::home_of(process), confined);
    match request.program_start {
        ProgramStart::Executed => {}
        ProgramStart::Reaped => builder.init(InitStep::BecomeReaper),
        ProgramStart::Saved => builder.init(InitStep::PassRequests),
        ProgramStart::Forked => builder.init(InitStep::StandIn),
    }
    process::compile_exec(builder, process, filter, &request.extra_env)
}

/// Adds the end of the set-up. `create` returns once init is ready, and the container is recorded before init waits for
/// `start`. `run` does not wait until init is ready: init continues once the container is recorded
/// (`recorded-before-it-runs`, `words-match`).
fn compile_handshake(builder: &mut Builder, context: &Context<'_, '_>, is_stripped: bool) {
    let Context { request, process, birth, .. } = context;
    // A stripped init no longer holds the container's lock. Another command could then enter the container before the
    // set-up is complete, so the parent waits until init is ready. The template's child enters the container that init
    // has completed.
    let one_way = !request.wait_for_start
        && request.program_start != ProgramStart::Forked
        && !is_stripped
        && request.kernel.fast_paths.contains(FastPaths::ONE_WAY_HANDSHAKE);
    if !one_way {
        builder.init(InitStep::AnnounceReady);
        builder.parent(ParentStep::AwaitReady);
    }
    builder.init(InitStep::AwaitCommit);
    // `scope-before-program`
    if context.has_early_scope() && !context.awaits_hooks() {
        let state = match context.may_write_cgroups() {
            true => ScopeState::Started,
            false => ScopeState::Accepted,
        };
        builder.parent(ParentStep::AwaitScope(state));
    }
    builder.parent(ParentStep::Commit);
    if request.wait_for_start {
        builder.init(InitStep::AwaitStart);
        return;
    }
    if !request.attended {
        builder.parent(ParentStep::AwaitExec);
    }
    let is_own = birth.memory == Memory::Shared || request.caller.is_confined();
    if is_own && process.oom_score_adj.is_some() {
        builder.parent(ParentStep::RestoreOomScore);
    }
}
