//! `stats`: a table of the resource usage of running containers.

use container::{Container, Status};
use rustix::system::sysinfo;
use rustix::termios::isatty;
use rustix::thread::nanosleep;
use rustix::time::{ClockId, Timespec, clock_gettime};
use sys::stdio::stdout;

use super::*;
use crate::format::table;

/// The time for which CPU time is measured before the first table.
const FIRST: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// The time from one table to the next.
const NEXT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Moves a terminal's cursor to the top, and erases what is below it.
const TOP: &str = "\x1b[H\x1b[J";
const TITLE: [&str; 6] = ["CONTAINER", "CPU %", "MEM USAGE / LIMIT", "MEM %", "BLOCK I/O", "PIDS"];

/// A container's usage at one time.
struct Sample {
    id: String,
    /// CPU time in nanoseconds.
    cpu: u64,
    /// The time of the sample, in nanoseconds.
    at: u64,
    memory: u64,
    limit: u64,
    read: u64,
    written: u64,
    pids: u64,
}

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let ids: Vec<String> = match invocation.arguments {
        [] => list::states(invocation)?.into_iter().map(|state| state.id).collect(),
        ids => ids.iter().map(ToString::to_string).collect(),
    };
    let is_named = !invocation.arguments.is_empty();
    let mut before = samples(invocation, &ids, is_named)?;
    let mut wait = FIRST;
    loop {
        let _ = nanosleep(&wait);
        let now = samples(invocation, &ids, false)?;
        let text = table::layout(TITLE, now.iter().map(|now| row(&before, now)));
        let is_last = invocation.values.flag(&NO_STREAM) || now.is_empty();
        let top = if !is_last && isatty(stdout()) { TOP } else { "" };
        print(&format!("{top}{text}"))?;
        if is_last {
            return Ok(());
        }
        (before, wait) = (now, NEXT);
    }
}

/// Returns the usage of those of the containers that run. If they are named, each has to run.
fn samples(
    invocation: &Invocation<'_>,
    ids: &[String],
    is_named: bool,
) -> Result<Vec<Sample>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (store, mut all) = (invocation.store()?, Vec::new());
    for id in ids {
        match store.by_beginning(id).map_err(Failure::from).and_then(|container| sample(&container))
        {
            Ok(sample) => all.push(sample),
            Err(failure) if is_named => return Err(failure),
            Err(_) => {}
        }
    }
    Ok(all)
}

fn sample(container: &Container) -> Result<Sample, Failure> {
    if container.status()? == Status::Stopped {
        return Err(failure!("container with id {} is not running", container.id()));
    }
    let stats = container.cgroup()?.stats()?;
    let moved = |op: &str| {
        let entries = stats.blkio.io_service_bytes_recursive.iter();
        entries.filter(|entry| entry.op.eq_ignore_ascii_case(op)).map(|entry| entry.value).sum()
    };
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    Ok(Sample {
        id: container.id().into(),
        cpu: stats.cpu.usage.total,
        at: tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs(),
        memory: stats.memory.usage.usage,
        limit: stats.memory.usage.limit,
        read: moved("read"),
        written: moved("write"),
        pids: stats.pids.current,
    })
}

fn row(before: &[Sample], now: &Sample) -> [String; 6] {
    let earlier = before.iter().find(|earlier| earlier.id == now.id);
    let (cpu, time) = earlier.map_or((0, 0), |earlier| {
        (now.cpu.saturating_sub(earlier.cpu), now.at.saturating_sub(earlier.at))
    });
    let system = sysinfo();
    let all = system.totalram.saturating_mul(system.mem_unit.into());
    // Without a limit, the memory of the host is one.
    let limit = Some(now.limit).filter(|limit| (1..all).contains(limit)).unwrap_or(all);
    [
        now.id.clone(),
        percent(cpu, time),
        format!("{} / {}", readable(now.memory), readable(limit)),
        percent(now.memory, limit),
        format!("{} / {}", readable(now.read), readable(now.written)),
        now.pids.to_string(),
    ]
}

/// Returns a share in percent, with two decimals.
fn percent(part: u64, whole: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

/// Returns a number of bytes with one decimal, in the largest unit of which there is one.
fn readable(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, "B");
    for next in UNITS {
        if tenths < 10 << 10 {
            break;
        }
        (tenths, unit) = (tenths >> 10, next);
    }
    match unit {
        "B" => format!("{bytes}B"),
        _ => format!("{}.{}{unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(percent(1, 3), "33.33%");
        assert_eq!(percent(0, 0), "0.00%");
        assert_eq!(percent(3, 2), "150.00%");
        assert_eq!(readable(0), "0B");
        assert_eq!(readable(1023), "1023B");
        assert_eq!(readable(1536), "1.5KiB");
        assert_eq!(readable(64 << 20), "64.0MiB");
        assert_eq!(readable(u64::MAX), "16383.9PiB");
    }
}
