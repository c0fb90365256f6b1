//! SIGINT, SIGTERM and SIGHUP: a program ends at its next step and clears up behind itself.

use crate::Error;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// What a second one of these signals does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// No more than the first.
    Waits,
    /// It ends the program at once.
    Ends,
}

/// That one of these signals has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Takes note of these signals from now on, instead of dying of them; not of a hang-up that was ignored when the
/// program began (nohup(1)).
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
    Ok(())
}

/// One of these signals, and what can be read from once it has come.
#[derive(Debug)]
pub struct Stream {
    /// The signal's number.
    pub number: i32,
    /// Has a byte for each time that it came, of those that came at once for one.
    pub came: UnixStream,
}

/// Each of these signals by itself, for who sends them on. They no longer end this program.
///
/// # Errors
/// Those of socketpair(2) and sigaction(2).
pub fn streams() -> Result<Vec<Stream>, Error> {
    let stream = |number| {
        let failed = |error| Error::system("catch signal", number, error);
        let (came, wake) = UnixStream::pair().map_err(failed)?;
        signal_hook::low_level::pipe::register(number, wake).map_err(failed)?;
        Ok(Stream { number, came })
    };
    signals().map(stream).collect()
}

/// What can be read from once one of these signals has come, for who waits for other things as well. After
/// [`catch`].
///
/// # Errors
/// Those of socketpair(2) and sigaction(2).
pub fn wakes() -> Result<UnixStream, Error> {
    let failed = |error| Error::system("catch signal", "", error);
    let (wakes, wake) = UnixStream::pair().map_err(failed)?;
    for signal in signals() {
        let wake = wake.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, wake).map_err(failed)?;
    }
    Ok(wakes)
}

/// Those that are taken note of.
fn signals() -> impl Iterator<Item = i32> {
    let hangup = Some(signal_hook::consts::SIGHUP).filter(|signal| !is_ignored(*signal));
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM].into_iter().chain(hangup)
}

/// Whether a signal is ignored, as /proc says (proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether one has come.
#[must_use]
pub fn came() -> bool {
    CAME.get().is_some_and(|came| came.load(Ordering::Relaxed))
}

/// Turns a signal that has come into an error.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if came() { Err(Interrupted) } else { Ok(()) }
}
