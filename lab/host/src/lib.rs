//! `dayfly host`: the effects of this host on container starts; and `dayfly cgroup`: its cgroups. The *article on mount lock contention*, which several
//! modules cite, is "Mount Mayhem at Netflix: Scaling Containers on Modern CPUs".
//!
//! | part | what |
//! |---|---|
//! | [`facts`], [`layout`], [`engines`] | facts about this host, or about another host whose files are in a directory |
//! | [`check`] | the screen of verdicts |
//! | [`hardware`] | CPUs, caches, sockets and memory nodes |
//! | [`dynmods`] | shows, switches and persists favordynmods |
//! | [`locks`] | lock contention, and advice on concurrency |
//! | [`score`] | a number for schedulers, and its components |
//! | [`limit`] | the limit on concurrent starts |
//! | [`chart`] | pictures of CSV |
//! | [`cgroups`] | the commands of `dayfly cgroup` |
//! | [`mod@follow`] | follows a command and all its descendants by ptrace(2) |
//! | [`profile`] | `dayfly profile`: a seccomp profile learned from runs of a container |
//! | [`measure`] | statistics, progress and pictures |
//! | [`account`], [`output`], [`boot`] | users by name; writing results; files that act at boot |
//! | [`options`] | the command line |
//!
//! Of `dayfly host`, only [`dynmods`] and [`limit`] change a host. In `check`, only `probe` and `measured` make system calls to test the
//! running kernel, and they leave nothing behind.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures are rounded"
)]

#[macro_use]
mod refusal;

pub mod account;
pub mod boot;
pub mod cgroups;
pub mod chart;
pub mod check;
pub mod dynmods;
pub mod engines;
pub mod facts;
pub mod follow;
pub mod hardware;
pub mod layout;
pub mod limit;
pub mod locks;
pub mod measure;
pub mod options;
pub mod output;
pub mod profile;
pub mod score;

use self::facts::Facts;
use crate::options::{Command, Favordynmods, HostCommand};
use report::Error;
use std::process::ExitCode;

/// Executes `command`. Returns the exit code of the check, of a comparison, or of the program that `favordynmods auto`
/// ran; 0 for other commands.
///
/// # Errors
/// Those of the command.
pub fn execute(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Cgroup(command) => cgroups::execute(command),
        Command::Host(command) => host(command),
    }
}

fn host(command: HostCommand) -> Result<ExitCode, Error> {
    match command {
        HostCommand::Check(options) => {
            // The exit code lets scripts distinguish a host that could not be examined from one that can be improved.
            return Ok(check::check(&options).unwrap_or_else(|error| {
                report::usage::fail(error);
                ExitCode::from(2)
            }));
        }
        HostCommand::Topology(options) => hardware::command(&options)?,
        HostCommand::Favordynmods(command) => return favordynmods(command),
        HostCommand::Locks(options) => locks::locks(&options)?,
        HostCommand::Score(options) => score::command(&options)?,
        HostCommand::Limit(command) => limit::execute(&command)?,
        HostCommand::Chart(options) => chart::command(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn favordynmods(command: Favordynmods) -> Result<ExitCode, Error> {
    match command {
        Favordynmods::Status { format, sysroot } => {
            dynmods::status(&Facts::of(sysroot.as_deref())?, format)?
        }
        Favordynmods::Auto { command } => return dynmods::auto(&Facts::of(None)?, &command),
        Favordynmods::On(options) => dynmods::on(&options.facts()?, options.yes)?,
        Favordynmods::Off(options) => dynmods::off(&options.facts()?)?,
        Favordynmods::Persist(options) => dynmods::persist(&options.facts()?, options.yes)?,
        Favordynmods::Unpersist(options) => dynmods::unpersist(&options.facts()?)?,
    }
    Ok(ExitCode::SUCCESS)
}
