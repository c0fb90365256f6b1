//! Threads that begin together, each on a CPU of its own, and count what they get done.

use crate::Error;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Has a thread on each of `cpus` take turns for `time`, and returns how many microseconds one took for
/// one turn. `prepare` is done before they begin, `turn` over and over.
///
/// # Errors
/// Those of `prepare` and `turn`; a thread that can't be made.
pub fn round<T>(
    cpus: &[u32],
    time: Duration,
    prepare: impl Fn() -> Result<T, Errno> + Sync,
    turn: impl Fn(&mut T) -> Result<(), Errno> + Sync,
) -> Result<f64, Error> {
    let (together, over) = (Barrier::new(cpus.len() + 1), AtomicBool::new(false));
    let member = |cpu: u32| {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        let ready = sched_setaffinity(None, &set).and_then(|()| prepare());
        // Who is not ready comes as well, or the others would wait for ever.
        together.wait();
        let mut state = ready?;
        let mut turns = 0u64;
        while !over.load(Ordering::Relaxed) {
            turn(&mut state)?;
            turns += 1;
        }
        Ok::<u64, Errno>(turns)
    };
    let (elapsed, counts) = thread::scope(|scope| {
        let members: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || member(cpu))).collect();
        together.wait();
        let start = Instant::now();
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let elapsed = start.elapsed();
        let counts: Vec<_> = members.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (elapsed, counts)
    });
    let mut turns = 0;
    for count in counts {
        let count = count.unwrap_or(Err(Errno::CHILD));
        turns += count.map_err(|errno| Error::system("measure", "a thread", errno))?;
    }
    Ok(elapsed.as_secs_f64() * 1e6 * cpus.len() as f64 / turns.max(1) as f64)
}
