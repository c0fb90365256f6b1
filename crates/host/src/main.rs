//! The `dayfly-host` program, which `dayfly cgroup` and `dayfly host` execute.

use clap::Parser;
use dayfly_host::options::{Command, Options};
use dayfly_host::{cgroup, host};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Options::parse().command {
        Command::Cgroup(command) => cgroup::execute(command),
        Command::Host(command) => host::execute(command),
    };
    result.unwrap_or_else(|error| {
        // Where that can't be written either, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "dayfly: {error}");
        ExitCode::FAILURE
    })
}
