//! The `dayfly-host` program, which `dayfly host` executes.

use clap::Parser;
use dayfly_host::options::{Command, Options};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Host(command) = Options::parse().command;
    dayfly_host::execute(command).unwrap_or_else(|error| {
        // Where that can't be written either, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "dayfly: {error}");
        ExitCode::FAILURE
    })
}
