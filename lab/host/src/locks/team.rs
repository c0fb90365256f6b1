//! Threads that start together, each pinned to a CPU, and count their calls of a function.

use report::Error;
use rustix::io::Errno;
use rustix::thread::sched_setaffinity;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use sys::sched::cpu_set;

/// Runs a thread on each of `cpus` at the same time, for `time`. Each thread calls `prepare` once before all begin, and
/// then `turn` repeatedly. Returns the mean duration of a call of `turn` in microseconds.
///
/// # Errors
/// Those of `prepare` and `turn`; a thread that cannot be created.
pub fn round<T>(
    cpus: &[u32],
    time: Duration,
    prepare: impl Fn() -> Result<T, Errno> + Sync,
    turn: impl Fn(&mut T) -> Result<(), Errno> + Sync,
) -> Result<f64, Error> {
    let (together, over) = (Barrier::new(cpus.len() + 1), AtomicBool::new(false));
    let member = &|cpu: u32| {
        let here = cpu_set(std::iter::once(cpu));
        let ready = sched_setaffinity(None, &here).and_then(|()| prepare());
        // A thread whose preparation failed waits at the barrier as well, so that the others do not wait for ever.
        together.wait();
        let mut state = ready?;
        let start = Instant::now();
        let mut turns = 0u32;
        // Only whole turns are counted, and at least one: a turn may take longer than the round.
        while turns == 0 || !over.load(Ordering::Relaxed) {
            turn(&mut state)?;
            turns += 1;
        }
        Ok::<_, Errno>((start.elapsed(), turns))
    };
    let results = thread::scope(|scope| {
        let members: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || member(cpu))).collect();
        together.wait();
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        members.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let (mut elapsed, mut turns) = (Duration::ZERO, 0);
    for result in results {
        let result = result.unwrap_or(Err(Errno::CHILD));
        let (took, of) = result.map_err(|errno| Error::system("measure", "a thread", errno))?;
        elapsed += took;
        turns += of;
    }
    Ok(elapsed.as_secs_f64() * 1e6 / f64::from(turns.max(1)))
}
