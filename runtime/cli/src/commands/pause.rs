//! `pause`: stops all processes of a container.

use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    Ok(invocation.container()?.pause()?)
}
