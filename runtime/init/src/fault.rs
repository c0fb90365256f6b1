//! Fault injection for tests: in builds with `--cfg dayfly_faults`, one step of a command can be made to fail, to be
//! delayed, or to kill its process. Other builds contain no fault injection.

/// The actor in whose steps a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The plan's list for the parent.
    Parent = 1,
    /// The plan's list for init.
    Init = 2,
    /// A command: its traced steps and other operations that can fail.
    Command = 3,
    /// The intermediate: its steps join, clone and hand over.
    Intermediate = 4,
    /// The network maker: its traced steps.
    Network = 5,
}

#[cfg(not(dayfly_faults))]
mod point {
    use rustix::io::Errno;

    /// Does nothing, in builds without faults.
    #[inline(always)]
    pub fn strike(_: super::Place, _: usize) -> Result<(), Errno> {
        Ok(())
    }
}

#[cfg(dayfly_faults)]
mod point {
    use super::Place;
    use core::sync::atomic::{AtomicU32, Ordering};
    use rustix::io::Errno;
    use rustix::process::{Signal, getpid, kill_process};

    /// Place, step and kind of the fault; 0 if no fault is set.
    static ARMED: AtomicU32 = AtomicU32::new(0);
    const KILL: u32 = 1 << 31;
    const ALLOCATE: u32 = 1 << 30;
    const LATE: u32 = 1 << 29;
    const KINDS: u32 = KILL | ALLOCATE | LATE;
    /// The delay in nanoseconds. It is longer than the run time of any other process of a start.
    const DELAY: i64 = 100_000_000;

    /// Parses `PLACE:STEP:KIND`. PLACE is the name of a [`Place`], STEP a number from 0. KIND is
    /// `fail` (the step fails with EIO), `kill` (its process is killed), `late` (the step begins
    /// 100 ms later) or `allocate` (the step first allocates a block on the heap; this ends a
    /// process that shares its creator's memory, and has no effect in any other process). Returns
    /// false for anything else.
    pub fn arm(text: &str) -> bool {
        let mut words = text.split(':');
        let place = match words.next() {
            Some("parent") => Place::Parent,
            Some("init") => Place::Init,
            Some("command") => Place::Command,
            Some("intermediate") => Place::Intermediate,
            Some("network") => Place::Network,
            _ => return false,
        };
        let step = words.next().and_then(|word| word.parse::<u16>().ok());
        let kind = match words.next() {
            Some("fail") => 0,
            Some("kill") => KILL,
            Some("allocate") => ALLOCATE,
            Some("late") => LATE,
            _ => return false,
        };
        let Some(step) = step else { return false };
        ARMED.store(kind | (place as u32) << 16 | u32::from(step), Ordering::Relaxed);
        true
    }

    /// Injects the fault, if one is set for this step: returns an error, delays the step, allocates, or kills the
    /// process.
    ///
    /// # Errors
    /// EIO.
    pub fn strike(place: Place, step: usize) -> Result<(), Errno> {
        let armed = ARMED.load(Ordering::Relaxed);
        let (of_place, of_step) = ((armed & !KINDS) >> 16, armed & 0xffff);
        if of_place != place as u32 || u32::try_from(step) != Ok(of_step) {
            return Ok(());
        }
        match armed & KINDS {
            KILL => {}
            ALLOCATE => {
                sys::alloc::provoke(step);
                return Ok(());
            }
            LATE => {
                let delay = rustix::thread::Timespec { tv_sec: 0, tv_nsec: DELAY };
                let _ = rustix::thread::nanosleep(&delay);
                return Ok(());
            }
            _ => return Err(Errno::IO),
        }
        let _ = kill_process(getpid(), Signal::KILL);
        // The first process of a PID namespace cannot be killed from inside, so it exits abruptly.
        sys::start::exit(137)
    }
}

#[cfg(dayfly_faults)]
pub use point::arm;
pub use point::strike;
