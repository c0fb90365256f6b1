//! Work that blocks and that a signal interrupts all the same: whoever waits for it looks for signals meanwhile.

use crate::error::{Error, Result};
use report::interrupt::check;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often who waits for another thread looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(100);

/// Does in a thread of its own what may block for long and cannot be interrupted. If nobody waits for it any more
/// it ends with the process.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        // Whoever waited may be gone.
        let _ = sender.send(work());
    });
    receiver
}

/// Waits for what another thread sends, up to `patience`: then none.
///
/// # Errors
/// [`Error::Interrupted`]; that the other thread ended without a word.
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
