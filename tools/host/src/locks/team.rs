//! Threads that begin together, each on a CPU of its own, and count what they get done.

use report::Error;
use rustix::io::Errno;
use rustix::thread::sched_setaffinity;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use sys::sched::cpu_set;

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
        let here = cpu_set(std::iter::once(cpu));
        let ready = sched_setaffinity(None, &here).and_then(|()| prepare());
        // Who is not ready comes as well, or the others would wait for ever.
        together.wait();
        let mut state = ready?;
        let start = Instant::now();
        let mut turns = 0u32;
        // Whole turns, the last one too: some take as long as a round is meant to.
        while turns == 0 || !over.load(Ordering::Relaxed) {
            turn(&mut state)?;
            turns += 1;
        }
        Ok::<_, Errno>((start.elapsed(), turns))
    };
    let results = thread::scope(|scope| {
        let members: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                scope.spawn({
                    let member = &member;
                    move || member(cpu)
                })
            })
            .collect();
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
