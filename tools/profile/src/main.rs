//! The `dayfly-profile` program, which `dayfly profile` executes.

use clap::Parser;
use dayfly_profile::options::{Command, Options, ProfileCommand};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Profile(ProfileCommand::Learn(options)) = Options::parse().command;
    match dayfly_profile::command::learn(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where that can't be written either, the exit code has to do.
            let _ = writeln!(std::io::stderr(), "dayfly: {error}");
            ExitCode::FAILURE
        }
    }
}
