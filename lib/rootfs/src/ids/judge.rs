//! Decides whether a leased range of ids is abandoned.

use rustix::process::Pid;

use super::Lease;
use crate::Error;
use crate::census::Census;
use crate::owner::Presence;

/// The state of a range that may be abandoned.
pub(super) enum State {
    /// The range's owner may still exist, and may free the range.
    Taken,
    /// The owner's directory is missing or abandoned, but the process with this pid uses ids of the range.
    Inhabited(Pid),
    /// The range's owner no longer exists, and no process uses ids of the range.
    Gone,
}

/// Decides whether ranges are abandoned.
#[derive(Default)]
pub(super) struct Judge {
    /// A snapshot of the host's processes, taken on first use, once for all ranges.
    census: Option<Census>,
}

impl Judge {
    /// Returns the state of a leased range.
    pub fn state(&mut self, lease: &Lease) -> Result<State, Error> {
        let presence = lease.owner.is_there();
        if matches!(presence, Presence::There) {
            return Ok(State::Taken);
        }
        let census = self.census()?;
        if let Some(pid) = census.inhabitant(lease.first) {
            return Ok(State::Inhabited(pid));
        }
        match presence.is_final(lease.mount_namespace, census)? {
            true => Ok(State::Gone),
            false => Ok(State::Taken),
        }
    }

    pub fn census(&mut self) -> Result<&Census, Error> {
        let census = match self.census.take() {
            Some(census) => census,
            None => Census::take()?,
        };
        Ok(self.census.insert(census))
    }
}
