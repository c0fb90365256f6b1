//! `start`: runs a created container's program.

use container::Warn;

use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    Ok(invocation
        .exact_container()?
        .start(invocation.args, Warn { record: invocation.warn, print: invocation.tell })?)
}
