//! `cache clear`: removes the cache that speeds up starts of containers on this host.

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    match invocation.arguments.first() {
        Some(&"clear") => Ok(container::clear_cache()?),
        Some(other) => {
            Err(failure!("cache: unknown action {other:?}; the only action is \"clear\""))
        }
        None => Err(Failure::new("cache: no action is given: use \"clear\"")),
    }
}
