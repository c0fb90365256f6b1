//! `state`: prints a container's state.

use super::print;
use crate::failure::Failure;
use crate::format::state::state;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    print(&state(invocation.exact_container()?.state()?)?)
}
