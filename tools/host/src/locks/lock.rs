//! A lock as the kernel's mount_lock is: a queue with a sequence number, which readers wait for to be even.

use super::team;
use report::Error;
use rustix::io::Errno;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;
use std::time::Duration;

/// Turns of waiting after which a thread lets others run: whoever has the lock may have lost its CPU, which
/// the kernel's own locks don't.
const PATIENCE: u32 = 1 << 14;

/// All of it in one line of the cache, as in the kernel.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SeqLock {
    /// The ticket that the next comer takes.
    next: AtomicU32,
    /// The ticket whose turn it is.
    serving: AtomicU32,
    /// Odd while somebody has the lock.
    sequence: AtomicU32,
}

impl SeqLock {
    /// What a path lookup does first (`read_seqbegin`).
    fn read(&self) {
        wait(|| self.sequence.load(Ordering::Acquire).is_multiple_of(2));
    }

    /// What a mount does (`lock_mount_hash`, `unlock_mount_hash`).
    fn write(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        wait(|| self.serving.load(Ordering::Acquire) == ticket);
        self.sequence.fetch_add(1, Ordering::Release);
        self.sequence.fetch_add(1, Ordering::Release);
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
    }
}

fn wait(over: impl Fn() -> bool) {
    let mut turns = 0;
    while !over() {
        turns += 1;
        if turns % PATIENCE == 0 {
            yield_now();
        } else {
            spin_loop();
        }
    }
}

/// Has threads on `cpus` take one such lock for `time`; microseconds a turn.
///
/// # Errors
/// A thread that can't be made or put on its CPU.
pub fn round(cpus: &[u32], time: Duration) -> Result<f64, Error> {
    /// So many turns between two looks at whether it is over.
    const BATCH: u32 = 16;
    let lock = SeqLock::default();
    let turns = team::round(
        cpus,
        time,
        || Ok::<(), Errno>(()),
        |()| {
            for _ in 0..BATCH {
                lock.read();
                lock.write();
            }
            Ok(())
        },
    )?;
    Ok(turns / f64::from(BATCH))
}
