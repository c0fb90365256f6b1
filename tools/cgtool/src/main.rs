//! The `dayfly-cgtool` program, which `dayfly cgroup` executes.

use clap::Parser;
use dayfly_cgtool::options::{Command, Options};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Cgroup(command) = Options::parse().command;
    dayfly_cgtool::execute(command).unwrap_or_else(|error| {
        // Where that can't be written either, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "dayfly: {error}");
        ExitCode::FAILURE
    })
}
