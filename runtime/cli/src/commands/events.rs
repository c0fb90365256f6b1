//! `events`: a container's statistics and OOM events.

use core::time::Duration;

use cgroup::{Cgroup, OomEvent, OomWatch};
use container::{Container, Status};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::*;
use crate::format::event::{self, Usage};
use crate::format::prometheus;

const DEFAULT_INTERVAL: i64 = 5_000_000_000;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let is_json = match invocation.values.text(&EVENTS_FORMAT) {
        None | Some("json") => true,
        Some("prometheus") => false,
        Some(_) => return Err(Failure::new("invalid format option")),
    };
    if invocation.values.flag(&EVENTS_ALL) {
        return of_all(invocation, is_json);
    }
    let container = invocation.container()?;
    let interval = match invocation.values.duration(&INTERVAL).unwrap_or(DEFAULT_INTERVAL) {
        nanoseconds @ 1.. => Duration::from_nanos(nanoseconds.unsigned_abs()),
        _ => return Err(Failure::new("duration interval must be greater than 0")),
    };
    let id = container.id();
    if container.status()? == Status::Stopped {
        return Err(failure!("container with id {id} is not running"));
    }
    let cgroup = container.cgroup()?;
    if !is_json {
        return print(&prometheus::text(&[usage(&container, &cgroup)?]));
    }
    if invocation.values.flag(&STATS) {
        return print(&usage(&container, &cgroup)?.line()?);
    }
    let mut watch = cgroup.watch_oom()?;
    loop {
        if follow(id, &mut watch, interval)? {
            return Ok(());
        }
        match usage(&container, &cgroup) {
            Ok(usage) => print(&usage.line()?)?,
            // The container may have exited since the last event was read.
            Err(_) if matches!(watch.read()?, OomEvent::End) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
}

/// Prints the statistics of every running container. A container that exits meanwhile is skipped. If a container's
/// statistics cannot be read, a warning is printed, and the others are printed nevertheless.
fn of_all(invocation: &Invocation<'_>, is_json: bool) -> Result<(), Failure> {
    if !invocation.arguments.is_empty() {
        return Err(Failure::new("--all is for all containers: leave out the id"));
    }
    if is_json && !invocation.values.flag(&STATS) {
        return Err(Failure::new("--all is only for --stats and --format prometheus"));
    }
    let states = list::states(invocation)?;
    if states.is_empty() {
        return Ok(());
    }
    let (store, mut all) = (invocation.store()?, Vec::new());
    for state in states {
        let Ok(container) = store.container(&state.id) else { continue };
        let is_over = || !matches!(container.status(), Ok(status) if status != Status::Stopped);
        if is_over() || container.cgroup_location().is_none() {
            continue;
        }
        match container
            .cgroup()
            .map_err(Failure::from)
            .and_then(|cgroup| usage(&container, &cgroup))
        {
            Ok(usage) => all.push(usage),
            Err(_) if is_over() => {}
            Err(failure) => {
                (invocation.warn.print)(&alloc::format!("{}: {}", state.id, failure.message))
            }
        }
    }
    match is_json {
        true => all.iter().try_for_each(|usage| print(&usage.line()?)),
        false => print(&prometheus::text(&all)),
    }
}

fn usage(container: &Container, cgroup: &Cgroup) -> Result<Usage, Failure> {
    let stats = cgroup.stats()?;
    let rdt = container.resctrl_group().map(|group| group.stats()).transpose()?;
    Ok(Usage { id: container.id().into(), stats, rdt: rdt.unwrap_or_default() })
}

/// Prints OOM events for the time `interval`. Returns early with `true` if the container exits.
fn follow(id: &str, watch: &mut OomWatch, interval: Duration) -> Result<bool, Failure> {
    let end = now() + interval;
    loop {
        let left = end.saturating_sub(now());
        match watch.wait(left)? {
            OomEvent::Oom => print(&event::oom(id)?)?,
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
