//! `dayfly host`: what this host does to container starts.

use crate::Error;
use crate::options::host::HostCommand;
use std::process::ExitCode;

/// Does what `command` says. The exit code is the verdict, where there is one.
///
/// # Errors
/// Everything that kept it from being done.
pub fn execute(command: HostCommand) -> Result<ExitCode, Error> {
    match command {}
}
