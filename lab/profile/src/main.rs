//! The `dayfly-profile` program, which `dayfly profile` executes.

use dayfly_profile::options::{Command, Options, ProfileCommand};
use report::usage;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Profile(ProfileCommand::Learn(options)) = usage::arguments::<Options>().command;
    match dayfly_profile::command::learn(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => usage::fail(error),
    }
}
