//! SIGINT and SIGTERM: a command ends at its next step and clears up behind itself.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes note of both signals from now on, instead of dying of them.
///
/// # Errors
/// Those of sigaction(2).
pub fn catch() -> Result<()> {
    let came = CAME.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second one ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(came))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(came)))
            .map_err(Error::at("catch signal", signal.to_string()))?;
    }
    Ok(())
}

/// Turns a signal that has come into an error.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn check() -> Result<()> {
    let came = CAME.get().is_some_and(|came| came.load(Ordering::Relaxed));
    if came { Err(Error::Interrupted) } else { Ok(()) }
}
