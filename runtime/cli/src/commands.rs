//! The commands, one file each. Each file converts arguments to a call of the container crate, and prints the result.

pub(crate) mod cache;
pub(crate) mod checkpoint;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod features;
mod image_options;
pub(crate) mod kill;
mod layers;
pub(crate) mod list;
pub(crate) mod logs;
mod network;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod ps;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod spec;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod stop;
pub(crate) mod template;
mod tool;
pub(crate) mod update;
mod volumes;

use core::fmt::Write;

use sys::stdio::Stdout;

use crate::definition::{Action, Command};
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Runs a command; returns its exit status.
pub(crate) fn run(command: &Command, invocation: &Invocation<'_>) -> Result<i32, Failure> {
    match command.action {
        Action::Run(run) => run(invocation).map(|()| 0),
        Action::Status(run) => run(invocation),
        Action::Execute(program, words) => tool::command(program, words, invocation),
    }
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
