//! SIGINT and SIGTERM: an experiment ends at its next step and clears up behind itself.

use crate::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes note of both signals from now on, instead of dying of them.
///
/// # Errors
/// Those of sigaction(2).
pub fn catch() -> Result<(), Error> {
    let came = CAME.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(came))
            .map_err(Error::at("catch signal", Path::new("")))?;
    }
    Ok(())
}

/// Whether one has come.
#[must_use]
pub fn came() -> bool {
    CAME.get().is_some_and(|came| came.load(Ordering::Relaxed))
}

/// Turns a signal that has come into an error.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn check() -> Result<(), Error> {
    if came() { Err(Error::Interrupted) } else { Ok(()) }
}
