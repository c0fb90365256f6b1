//! Handling of SIGINT, SIGTERM and SIGHUP: the program stops at its next step and cleans up.

use crate::Error;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The effect of a second signal that arrives after the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// The second signal has the same effect as the first.
    Waits,
    /// The second signal ends the program at once.
    Ends,
}

/// The error of a program that SIGINT, SIGTERM or SIGHUP has interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Catches SIGINT, SIGTERM and SIGHUP from now on: instead of killing the program, they set the flag that `check` reads
/// between the program's steps. SIGHUP stays ignored if it was ignored when the program started (nohup(1)).
///
/// # Errors
/// Those of sigaction(2).
pub fn catch(second: Second) -> Result<(), Error> {
    let came = CAME.get_or_init(Arc::default);
    for signal in signals() {
        let failed = |error| Error::system("catch signal", signal, error);
        if second == Second::Ends {
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(came))
                .map_err(failed)?;
        }
        signal_hook::flag::register(signal, Arc::clone(came)).map_err(failed)?;
    }
    // With a handler, a write beyond RLIMIT_FSIZE fails with EFBIG, which the program reports. By default, the signal
    // kills the program without a word, and nothing is cleaned up. A program that is executed gets the default back.
    let xfsz = signal_hook::consts::SIGXFSZ;
    let failed = |error| Error::system("catch signal", xfsz, error);
    signal_hook::flag::register(xfsz, Arc::default()).map_err(failed)?;
    Ok(())
}

/// SIGINT, SIGTERM or SIGHUP, with a stream that becomes readable when the signal arrives.
#[derive(Debug)]
pub struct Stream {
    /// The signal's number.
    pub number: i32,
    /// The stream that receives a byte for each delivery; deliveries at the same time may result in a single byte.
    pub came: UnixStream,
}

/// Catches SIGINT, SIGTERM and SIGHUP, each with its own stream, for programs that forward signals. The signals no
/// longer kill this program.
///
/// # Errors
/// Those of socketpair(2) and sigaction(2).
pub fn streams() -> Result<Vec<Stream>, Error> {
    signals().map(|number| Ok(Stream { number, came: stream([number])? })).collect()
}

/// Returns a stream that becomes readable when SIGINT, SIGTERM or SIGHUP arrives, for programs that also poll other
/// descriptors. [`catch`] must have been called before.
///
/// # Errors
/// Those of socketpair(2) and sigaction(2).
pub fn wakes() -> Result<UnixStream, Error> {
    stream(signals())
}

/// Returns a stream that becomes readable when one of these signals arrives.
fn stream(signals: impl IntoIterator<Item = i32>) -> Result<UnixStream, Error> {
    let failed = |error| Error::system("catch signal", "", error);
    let (came, wake) = UnixStream::pair().map_err(failed)?;
    for signal in signals {
        let wake = wake.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, wake).map_err(failed)?;
    }
    Ok(came)
}

/// Iterates over the signals to catch.
fn signals() -> impl Iterator<Item = i32> {
    let hangup = Some(signal_hook::consts::SIGHUP).filter(|signal| !is_ignored(*signal));
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM].into_iter().chain(hangup)
}

/// Returns whether a signal is ignored, as reported in /proc/self/status (proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns whether SIGINT, SIGTERM or SIGHUP has arrived.
#[must_use]
pub fn came() -> bool {
    CAME.get().is_some_and(|came| came.load(Ordering::Relaxed))
}

/// Returns an error if SIGINT, SIGTERM or SIGHUP has arrived.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if came() { Err(Interrupted) } else { Ok(()) }
}
