//! A time line of any runtime, from outside: its system calls as ptrace(2) shows them.

mod classify;
mod ending;
mod fold;
mod gather;
mod look;
mod wakers;

pub use classify::Layout;

use crate::process::{Failure, Sample};
use crate::weigh;
use follow::{Mode, follow};
use gather::Gather;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};
use trace::{Timeline, now};

/// A command as it was seen.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// What it did.
    pub timeline: Timeline,
    /// What it took to see that.
    pub held: Held,
}

/// How often the tracer stopped those it followed, and for how long, itself being at work. Switching
/// between tracee and tracer comes on top, and can't be told from the tracee's own time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// How often.
    pub stops: u64,
    /// Nanoseconds in all.
    pub time: u64,
}

impl std::ops::AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.stops += other.stops;
        self.time += other.time;
    }
}

/// Runs `command`, the runtime's `step` for the container `id`, and observes it. `errors` gets its
/// stderr; its stdin and stdout are /dev/null.
///
/// # Errors
/// Any end but exit status 0.
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
