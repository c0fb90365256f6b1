//! `events`: a container's statistics and OOM events.

use alloc::string::String;
use core::time::Duration;

use cgroup::{Cgroup, OomEvent, OomWatch};
use container::{Container, Status};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::print;
use crate::definition::options::{INTERVAL, STATS};
use crate::failure::Failure;
use crate::format::event::{Event, Figures};
use crate::invocation::Invocation;

const DEFAULT_INTERVAL: i64 = 5_000_000_000;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let container = invocation.container()?;
    let interval = match invocation.values.duration(&INTERVAL).unwrap_or(DEFAULT_INTERVAL) {
        nanoseconds @ 1.. => Duration::from_nanos(nanoseconds.unsigned_abs()),
        _ => return Err(Failure::new("duration interval must be greater than 0")),
    };
    let id = container.id();
    if container.status()? == Status::Stopped {
        return Err(Failure::new(format_args!("container with id {id} is not running")));
    }
    let location = container
        .cgroup_location()
        .ok_or_else(|| Failure::new("the container has no cgroup of its own"))?;
    let cgroup = Cgroup::open(location)?;
    if invocation.values.flag(&STATS) {
        return print(&stats(&container, &cgroup)?);
    }
    let mut watch = cgroup.watch_oom()?;
    loop {
        if follow(id, &mut watch, interval)? {
            return Ok(());
        }
        match stats(&container, &cgroup) {
            Ok(line) => print(&line)?,
            // The container may exit between the watch and the reading.
            Err(_) if matches!(watch.read()?, OomEvent::End) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
}

fn stats(container: &Container, cgroup: &Cgroup) -> Result<String, Failure> {
    let stats = cgroup.stats()?;
    let rdt = match container.resctrl_group() {
        Some(group) => group.stats()?,
        None => resctrl::Stats::default(),
    };
    Event::Stats { id: container.id(), data: &Figures::new(&stats, &rdt) }.line()
}

/// Reports OOM events during `interval`. Returns true if the container has exited.
fn follow(id: &str, watch: &mut OomWatch, interval: Duration) -> Result<bool, Failure> {
    let end = now() + interval;
    loop {
        let left = end.saturating_sub(now());
        match watch.wait(left)? {
            OomEvent::Oom => {
                let event: Event<'_, Figures<'_>> = Event::Oom { id };
                print(&event.line()?)?;
            }
            OomEvent::End => return Ok(true),
            OomEvent::None => return Ok(false),
        }
    }
}

/// Returns the time of the monotonic clock.
fn now() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    Duration::new(tv_sec.unsigned_abs(), u32::try_from(tv_nsec).unwrap_or(0))
}
