//! `cache clear`: removes the cache that speeds up starts of containers on this host.

use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    match invocation.arguments.first() {
        Some(&"clear") => Ok(container::clear_cache()?),
        Some(other) => Err(Failure::new(format_args!(
            "cache: unknown action {other:?}; the only action is \"clear\""
        ))),
        None => Err(Failure::new("cache: no action is given: use \"clear\"")),
    }
}
