//! `rm`: `delete`, for several containers.

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    each(invocation, |id| delete::delete(invocation, id))
}
