//! The host's limit on concurrent starts (`dayfly host limit`).

use alloc::format;
use core::time::Duration;

use topology::limit::{Admission, Limit, Permit, State};
use trace::Phase;

use crate::{Error, Trace, Warn};

/// Waits for a permit if the host has a limit on concurrent starts. Dropping the returned permit lets another start
/// continue. Returns `None` after the maximum waiting time of the limit; the start then continues without a permit.
///
/// # Errors
/// Fails only if a test injects a fault.
pub(crate) fn admit(trace: &Trace, warn: Warn<'_>) -> Result<Option<Permit>, Error> {
    while let Some(limit) = Limit::find() {
        trace.point("await", "permit")?;
        if let Some(permit) = limit.try_admit() {
            return Ok(Some(permit));
        }
        let Some(State { width, waiting, longest, .. }) = limit.state() else { continue };
        let queue = format!("{waiting} before it, {width} at once");
        let wait = || Ok::<_, Error>(limit.admit(longest));
        match trace.wait(Phase::Sync, "await permit", &queue, "other starts", wait)? {
            Admission::Admitted(permit) => return Ok(Some(permit)),
            Admission::Overdue => {
                overdue(longest, width, warn);
                return Ok(None);
            }
            Admission::Failed(errno) => {
                (warn.record)(&format!("starts without a permit: semtimedop: {errno}"));
                return Ok(None);
            }
            // The limit was removed; another limit may have replaced it.
            Admission::Lifted => {}
        }
    }
    Ok(None)
}

fn overdue(longest: Duration, width: usize, warn: Warn<'_>) {
    (warn.record)(&format!(
        "no permit to start in {} s, with {width} in flight at once: starts without one; \
         see \"dayfly host limit\"",
        longest.as_secs()
    ));
}
