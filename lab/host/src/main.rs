//! The `dayfly-host` program, which `dayfly host` executes.

use dayfly_host::options::{Command, Options};
use report::usage;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Host(command) = usage::arguments::<Options>().command;
    dayfly_host::execute(command).unwrap_or_else(usage::fail)
}
