//! The `dayfly-profile` program, which `dayfly profile` executes.

use dayfly_host::profile::learn;
use dayfly_host::profile::options::{Command, Options, ProfileCommand};
use report::usage;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Profile(ProfileCommand::Learn(options)) = usage::arguments::<Options>().command;
    learn(&options).map_or_else(usage::fail, |()| ExitCode::SUCCESS)
}
