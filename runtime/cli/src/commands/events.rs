//! `events`: a container's statistics and OOM events.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use cgroup::stats::Stats;
use cgroup::{Cgroup, OomEvent, OomWatch, resctrl};
use container::{Container, Status};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{list, print};
use crate::definition::options::{EVENTS_ALL, EVENTS_FORMAT, INTERVAL, STATS};
use crate::failure::Failure;
use crate::format::event::{Event, Figures};
use crate::format::prometheus;
use crate::invocation::Invocation;

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
        return Err(Failure::new(format_args!("container with id {id} is not running")));
    }
    let cgroup = cgroup(&container)?;
    if !is_json || invocation.values.flag(&STATS) {
        return print(&Usage::read(&container, &cgroup)?.text(is_json)?);
    }
    let mut watch = cgroup.watch_oom()?;
    loop {
        if follow(id, &mut watch, interval)? {
            return Ok(());
        }
        match Usage::read(&container, &cgroup) {
            Ok(usage) => print(&usage.text(true)?)?,
            // The container may have exited since the last event was read.
            Err(_) if matches!(watch.read()?, OomEvent::End) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
}

fn cgroup(container: &Container) -> Result<Cgroup, Failure> {
    let location = container
        .cgroup_location()
        .ok_or_else(|| Failure::new("the container has no cgroup of its own"))?;
    Ok(Cgroup::open(location)?)
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
        match cgroup(&container).and_then(|cgroup| Usage::read(&container, &cgroup)) {
            Ok(usage) => all.push(usage),
            Err(_) if is_over() => {}
            Err(failure) => (invocation.tell)(&alloc::format!("{}: {}", state.id, failure.message)),
        }
    }
    if !is_json {
        let figures: Vec<_> = all.iter().map(Usage::figures).collect();
        return print(&prometheus::text(&figures));
    }
    all.iter().try_for_each(|usage| print(&usage.text(true)?))
}

/// The resource usage of a container.
struct Usage {
    id: String,
    stats: Stats,
    rdt: resctrl::Stats,
}

impl Usage {
    fn read(container: &Container, cgroup: &Cgroup) -> Result<Self, Failure> {
        let stats = cgroup.stats()?;
        let rdt = match container.resctrl_group() {
            Some(group) => group.stats()?,
            None => resctrl::Stats::default(),
        };
        Ok(Self { id: container.id().into(), stats, rdt })
    }

    fn figures(&self) -> prometheus::Figures<'_> {
        prometheus::Figures { id: &self.id, stats: &self.stats, rdt: &self.rdt }
    }

    fn text(&self, is_json: bool) -> Result<String, Failure> {
        match is_json {
            true => {
                let data = Figures::new(&self.stats, &self.rdt);
                Event::Stats { id: &self.id, data: &data }.line()
            }
            false => Ok(prometheus::text(&[self.figures()])),
        }
    }
}

/// Prints OOM events for the time `interval`. Returns early with `true` if the container exits.
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
