//! The `dayfly-cgtool` program, which `dayfly cgroup` executes.

use dayfly_cgtool::options::{Command, Options};
use report::usage;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Cgroup(command) = usage::arguments::<Options>().command;
    dayfly_cgtool::execute(command).unwrap_or_else(usage::fail)
}
