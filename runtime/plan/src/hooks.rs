//! Hooks (runtime-spec, config.md, "POSIX-platform Hooks").

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use sys::exec::StringArray;

use crate::builder::Builder;
use crate::path::c_str;
use crate::process::strings;
use crate::step::{Confined, Hook, Hooks, InitStep};
use crate::{Error, keep};

/// Prepares the hooks of one kind for execve(2). Hooks without an environment get `inherited`; for hooks inside the
/// container, an empty environment counts as none. The specification does not define this, and hooks rely on runc's
/// behaviour.
///
/// # Errors
/// Fails if a path or argument contains a NUL byte, or if a timeout is not positive.
pub fn compile(
    kind: &'static str,
    list: &[spec::Hook<'_>],
    inherited: impl Fn() -> Result<Vec<CString>, Error>,
) -> Result<Hooks, Error> {
    // runc leaves out an empty `env` when it passes hooks to its init.
    let inside = matches!(kind, "createContainer" | "startContainer");
    let hooks: Result<Vec<Hook>, Error> = list
        .iter()
        .enumerate()
        .map(|(index, hook)| {
            let args = if hook.args.is_empty() {
                core::slice::from_ref(&hook.path)
            } else {
                hook.args.as_slice()
            };
            let timeout = hook.timeout.map(u32::try_from).transpose().map_err(|_| {
                Error::config(format!("hooks.{kind}[{index}]: timeout must be a positive number"))
            })?;
            let own = hook.env.as_ref().filter(|env| !(inside && env.is_empty()));
            Ok(Hook {
                path: c_str(hook.path.as_str())?,
                argv: StringArray::leaked(strings(args)?),
                envp: StringArray::leaked(own.map_or_else(&inherited, |env| strings(env))?),
                is_of_process: own.is_none() && kind == "startContainer",
                timeout,
            })
        })
        .collect();
    Ok(Hooks { kind, list: keep::all(hooks?) })
}

/// Adds the step in which init runs these hooks, if there are any.
pub fn add(builder: &mut Builder, hooks: Hooks, home_of: Option<u32>, confined: Option<Confined>) {
    if !hooks.list.is_empty() {
        builder.init(InitStep::RunHooks { hooks, home_of, confined });
    }
}
