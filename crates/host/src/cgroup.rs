//! `dayfly cgroup`: the cgroups of this host.

use crate::Error;
use crate::options::cgroup::CgroupCommand;
use std::process::ExitCode;

/// Does what `command` says. The exit code is that of a program that was executed, where there is one.
///
/// # Errors
/// Everything that kept it from being done.
pub fn execute(command: CgroupCommand) -> Result<ExitCode, Error> {
    match command {}
}
