//! A time line of any runtime, from outside: its system calls as seen by ptrace(2).

mod classify;
mod fold;
mod gather;
mod look;
mod wakers;

pub use classify::Layout;

use crate::base::*;
use crate::process::{Failure, Sample};
use crate::weigh;
use gather::Gather;
use host::follow::{Mode, follow};
use trace::{Timeline, now};

/// An observed command.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The time line of the command.
    pub timeline: Timeline,
    /// The cost of observing the command.
    pub held: Held,
}

/// The number of stops of the tracees, and the time for which they were stopped while the tracer
/// worked. Switching between tracee and tracer takes additional time, which can't be separated from
/// the tracee's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of stops.
    pub stops: u64,
    /// The total time, in nanoseconds.
    pub time: u64,
}

impl std::ops::AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.stops += other.stops;
        self.time += other.time;
    }
}

/// Runs `command`, the runtime's `step` for the container `id`, and observes it. stderr goes to `errors`; stdin and
/// stdout are /dev/null.
///
/// # Errors
/// Any end except exit status 0.
pub fn observe(
    command: &Command,
    errors: File,
    (step, id): (&str, &str),
    layout: &Layout,
    deadline: Duration,
) -> Result<(Sample, Observed), Failure> {
    let followed = weigh::followed(command, errors);
    let mut gather = Gather::new(layout, deadline);
    let begun = Instant::now();
    let mut take = |pid, event| {
        let seen = now();
        gather.take(pid, event, seen);
        gather.resumed(pid, seen, now());
    };
    let end = follow(&followed, Mode::Syscalls, deadline, &mut take).map_err(weigh::failure)?;
    let sample = weigh::ended(end, Sample { wall: begun.elapsed(), ..Sample::default() })?;
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or_default();
    Ok((sample, gather.finish(format!("{name} {step}"), id)))
}
