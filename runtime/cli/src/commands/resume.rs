//! `resume`: continues a paused container.

use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    Ok(invocation.container()?.resume()?)
}
