//! A lock like the kernel's mount_lock: a ticket lock with a sequence number, which is odd while the lock is held.
//! Readers wait until the number is even.

use super::team;
use report::Error;
use rustix::io::Errno;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;
use std::time::Duration;

/// The number of spins after which a thread yields. The kernel's locks need no such limit, but here the holder may have
/// been preempted.
const PATIENCE: u32 = 1 << 14;

/// The lock; all fields are in one cache line, as in the kernel.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SeqLock {
    /// The next ticket to hand out.
    next: AtomicU32,
    /// The ticket of the current holder.
    serving: AtomicU32,
    /// Odd while the lock is held.
    sequence: AtomicU32,
}

impl SeqLock {
    /// Waits for the holder, as a path lookup does at its beginning (`read_seqbegin`).
    fn read(&self) {
        wait(|| self.sequence.load(Ordering::Acquire).is_multiple_of(2));
    }

    /// Takes and releases the lock as a mount does (`lock_mount_hash`, `unlock_mount_hash`).
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

/// Lets a thread on each of `cpus` take the same lock repeatedly for `time`; returns the microseconds per turn.
///
/// # Errors
/// A thread that cannot be created or pinned to its CPU.
pub fn round(cpus: &[u32], time: Duration) -> Result<f64, Error> {
    /// The number of turns after which a thread checks whether the time is over.
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
