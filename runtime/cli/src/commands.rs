//! The commands, one file each: what was given becomes a call of the container crate, and what that
//! returns is printed.

mod cache;
mod create;
mod delete;
mod events;
mod exec;
mod features;
mod kill;
mod layers;
mod list;
mod pause;
mod plan;
mod ps;
mod resume;
mod run;
mod spec;
mod start;
mod state;
mod tool;
mod update;

use core::fmt::Write;

use sys::stdio::Stdout;

use crate::definition::Command;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Runs `command`; returns its exit status.
pub(crate) fn run(command: &Command, invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let done = match command.name {
        "cache" => cache::command(invocation),
        "create" => create::command(invocation),
        "delete" => delete::command(invocation),
        "events" => events::command(invocation),
        "exec" => return exec::command(invocation),
        "features" => features::command(),
        "kill" => kill::command(invocation),
        "list" => list::command(invocation),
        "pause" => pause::command(invocation),
        "plan" => return plan::command(invocation),
        "ps" => ps::command(invocation),
        "resume" => resume::command(invocation),
        "run" => return run::command(invocation),
        "spec" => spec::command(invocation),
        "start" => start::command(invocation),
        "state" => state::command(invocation),
        "bench" | "trace" | "image" | "rootfs" | "gc" | "cgroup" | "host" => {
            tool::command(command.name, invocation)
        }
        "update" => update::command(invocation),
        name => Err(Failure::unsupported(name)),
    };
    done.map(|()| 0)
}

/// Prints a command's result in one write.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    Stdout.write_str(text).map_err(|_| Failure::new("can't write to standard output"))
}

/// Refuses a `--format` that is neither JSON nor `other`; says whether it is JSON.
fn is_json(format: Option<&str>, other: &str) -> Result<bool, Failure> {
    match format {
        None => Ok(false),
        Some("json") => Ok(true),
        Some(format) if format == other => Ok(false),
        Some(_) => Err(Failure::new("invalid format option")),
    }
}
