//! Hooks that run after the container's creation: poststart and poststop.
//!
//! If a startContainer or poststart hook fails at `start`, the container is removed and its poststop hooks run. Version
//! 1.3 of the specification demands this (runtime.md, "Lifecycle"); older versions demanded a warning for poststart.
//! runc 1.5 runs these hooks at `create`, and leaves the clean-up to `delete`.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};

use launch::HookFailure;
use plan::StateText;
use plan::step::Hooks;

use crate::{Container, Error, Warn, record};

/// Serializes hooks for the record as JSON; returns an empty string if there are no hooks.
pub(crate) fn to_json(kind: &str, hooks: &[spec::Hook<'_>]) -> Result<String, Error> {
    if hooks.is_empty() { Ok(String::new()) } else { record::to_json(kind, hooks) }
}

fn read(container: &Container, kind: &'static str, json: &str) -> Result<Hooks, Error> {
    if json.is_empty() {
        return Ok(Hooks::default());
    }
    let list: alloc::vec::Vec<spec::Hook<'_>> = serde_json::from_str(json)
        .map_err(|error| Error::Json { what: format!("{kind} hooks of the record"), error })?;
    let environment = || Ok(container.trace.args().environment().map(CString::from).collect());
    Ok(plan::compile_hooks(kind, &list, environment)?)
}

fn run(container: &Container, hooks: &Hooks, status: &str, pid: i32) -> Result<(), Error> {
    try_run(container, hooks, status, pid)
        .map_err(|failed| launch::Error::Hook(failed.describe(hooks).to_string()).into())
}

#[allow(clippy::result_large_err, reason = "as in launch")]
fn try_run(
    container: &Container,
    hooks: &Hooks,
    status: &str,
    pid: i32,
) -> Result<(), HookFailure> {
    let state = StateText::from_head(&container.record.state_head);
    // `create` has refused a path that cannot be converted.
    let bundle = CString::new(container.record.bundle.as_str()).ok();
    let directory = bundle.as_deref();
    let manner = launch::Manner { directory, tracer: Some(container.trace), limit: None };
    launch::run_hooks(hooks, &state, status, pid, &manner)
}

/// Runs poststart hooks once the program is running. If a hook fails, kills the container, as runc does.
pub(crate) fn after_start(container: &Container) -> Result<(), Error> {
    let hooks = read(container, "poststart", &container.record.poststart)?;
    if hooks.list.is_empty() {
        return Ok(());
    }
    let pid = container.header.process.map_or(0, |(pid, _)| pid.as_raw_nonzero().get());
    let point = container.trace.point("run hooks", "poststart").map_err(Error::from);
    let result = point.and_then(|()| run(container, &hooks, "running", pid));
    if result.is_err() {
        let _ = container.kill(9);
    }
    result
}

/// Runs poststop hooks once everything is removed. A failing hook causes a warning, since the remaining clean-up must
/// still happen.
pub(crate) fn after_stop(container: &Container, warn: Warn<'_>) {
    let Ok(hooks) = read(container, "poststop", &container.record.poststop) else { return };
    for (index, hook) in hooks.list.iter().enumerate() {
        let one = Hooks { kind: hooks.kind, list: core::slice::from_ref(hook) };
        if let Err(mut failed) = try_run(container, &one, "stopped", 0) {
            failed.index = index;
            (warn.record)(&failed.describe(&one).to_string());
        }
    }
}
