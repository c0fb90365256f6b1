//! The commands, the longer ones in one file each. Each converts arguments to a call of the container crate, and prints the result.

pub(crate) mod cache;
pub(crate) mod checkpoint;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod events;
pub(crate) mod exec;
mod image_options;
pub(crate) mod inspect;
pub(crate) mod kill;
pub(crate) mod layers;
pub(crate) mod list;
pub(crate) mod logs;
mod network;
pub(crate) mod plan;
pub(crate) mod ps;
pub(crate) mod restore;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod spec;
pub(crate) mod stats;
pub(crate) mod stop;
pub(crate) mod template;
mod tool;
pub(crate) mod update;
mod volumes;
pub(crate) mod wait;

// What most commands use. Their files begin with `use super::*`.
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use sys::Context;
use sys::stdio::Stdout;

use crate::definition::options::{self, *};
use crate::definition::{Action, Command};
use crate::failure::{Failure, failure};
use crate::invocation::Invocation;
use crate::option::Opt;
use crate::values::Values;
use crate::{NAME, duration, format, number, signal, size, state_root};

/// Runs a command; returns its exit status.
pub(crate) fn run(command: &Command, invocation: &Invocation<'_>) -> Result<i32, Failure> {
    match command.action {
        Action::Run(run) => run(invocation).map(|()| 0),
        Action::Status(run) => run(invocation),
        Action::Execute(program) => tool::command(program, command.name, invocation),
    }
}

/// Freezes all processes of a container.
pub(crate) fn pause(invocation: &Invocation<'_>) -> Result<(), Failure> {
    Ok(invocation.container()?.pause()?)
}

/// Thaws the processes of a paused container.
pub(crate) fn resume(invocation: &Invocation<'_>) -> Result<(), Failure> {
    Ok(invocation.container()?.resume()?)
}

/// Runs a created container's program.
pub(crate) fn start(invocation: &Invocation<'_>) -> Result<(), Failure> {
    Ok(invocation.exact_container()?.start(invocation.args, invocation.warn)?)
}

/// Prints a container's state.
pub(crate) fn state(invocation: &Invocation<'_>) -> Result<(), Failure> {
    print(&format::list::state(invocation.exact_container()?.state()?)?)
}

/// Prints the features of this build of dayfly.
pub(crate) fn features(_: &Invocation<'_>) -> Result<(), Failure> {
    print(&format::features::text()?)
}

/// Calls `run` for each argument, also after a failure. Returns the last failure; those before it are printed.
fn each(
    invocation: &Invocation<'_>,
    mut run: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut last = Ok(());
    for id in invocation.arguments {
        if let Err(failure) = run(id)
            && let Err(earlier) = core::mem::replace(&mut last, Err(failure))
        {
            (invocation.warn.print)(&earlier.message);
        }
    }
    last
}

/// Prints a command's result in one write.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    Stdout.write_str(text).map_err(|_| Failure::new("can't write to standard output"))
}

/// Checks the value of `--format`, and returns whether it is `json`. Values other than `json` and `other` are refused.
fn is_json(format: Option<&str>, other: &str) -> Result<bool, Failure> {
    match format {
        None => Ok(false),
        Some("json") => Ok(true),
        Some(format) if format == other => Ok(false),
        Some(_) => Err(Failure::new("invalid format option")),
    }
}
