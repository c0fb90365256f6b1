//! Runs hooks outside the container (`init::hooks`). Each hook gets a row on the time line of a
//! trace.

use core::ffi::CStr;

use init::hooks::{self, HookFailure};
use init::step::{Hook, Hooks, Limit, StateText};
use rustix::process::Pid;
use trace::Tracer;

/// The parameters for running hooks.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// The working directory of the hooks.
    pub directory: Option<&'a CStr>,
    /// The tracer, which adds a row to its time line for each hook.
    pub tracer: Option<&'a Tracer>,
    /// The hooks' limit on open descriptors, if it differs from this process's.
    pub limit: Option<Limit>,
}

/// Runs all hooks of a kind in order, up to the first failure.
///
/// # Errors
/// The hook that failed.
#[allow(clippy::result_large_err, reason = "as in init, which has no heap")]
pub fn run_all(
    hooks: &Hooks<'_>,
    state: &StateText<'_>,
    status: &str,
    pid: i32,
    manner: &Manner<'_>,
) -> Result<(), HookFailure> {
    let tracer = manner.tracer.filter(|tracer| tracer.is_on());
    let lived = |hook: &Hook<'_>, pid: Pid, time| {
        if let Some(tracer) = tracer {
            tracer.lived_awaited("hook", pid, &hook.path.to_string_lossy(), time);
        }
    };
    let manner = hooks::Manner {
        directory: manner.directory,
        limit: manner.limit,
        lived: tracer.map(|_| &lived as &hooks::Lived<'_>),
        ..hooks::Manner::default()
    };
    hooks::run_all(hooks, state, status, pid, &manner)
}
