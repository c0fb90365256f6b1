//! `tier`.

use crate::Error;
use crate::options::cgroup::Tier;

/// Does it.
///
/// # Errors
/// Always, for now.
pub fn tier(_: &Tier) -> Result<(), Error> {
    Err(Error::refused("tiers are not there yet"))
}
