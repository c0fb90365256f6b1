//! Blocking work that signals can interrupt: a separate thread does the work, while the waiting thread checks for
//! signals.

use crate::error::{Error, Result};
use report::interrupt::check;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which a waiting thread checks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work`, which may block for long and cannot be interrupted, in a separate thread. If nobody waits for the work
/// any more, its thread ends with the process.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        // Fails if the receiver has been dropped.
        let _ = sender.send(work());
    });
    receiver
}

/// Waits for a value that another thread sends; returns `None` after `patience`.
///
/// # Errors
/// [`Error::Interrupted`]; the other thread ended without sending anything.
pub fn receive<T>(from: &Receiver<T>, patience: Duration) -> Result<Option<T>> {
    let begin = Instant::now();
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        match from.recv_timeout(left.min(LOOK)) {
            Ok(sent) => return Ok(Some(sent)),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => check()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Unfit("a thread ended without a result".to_owned()));
            }
        }
    }
}
