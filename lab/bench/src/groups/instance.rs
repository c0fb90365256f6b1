//! An instance in its group, and its reports while it works.

use super::ground::Ground;
use super::{Groups, work};
use crate::harness::*;
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;
use std::thread::JoinHandle;

/// An instance's report for a tenth of a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tick {
    /// The end of the interval, in ms since 1970.
    pub at_ms: f64,
    /// The number of transactions.
    pub count: f64,
    /// The 99th percentile of their times, in µs.
    pub p99_us: f64,
    /// The CPU time of the instance so far, in µs.
    pub cpu_us: f64,
}

/// An instance to start: its group, its name, and its number of threads.
pub(super) type Member<'a> = (&'a str, &'a str, usize);

/// The data of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Anonymous memory, which can only be swapped out.
    Memory,
    /// A file that the kernel caches as memory permits.
    File,
    /// A file in memory.
    MemoryFile,
}

/// A ready or running instance.
pub(super) struct Instance {
    pub name: String,
    child: Child,
    input: Option<ChildStdin>,
    told: Option<JoinHandle<Vec<Tick>>>,
}

impl Instance {
    /// Starts the instance `name` in a group, and returns once the instance has allocated its data and waits.
    ///
    /// # Errors
    /// The instance can't be started, or can't allocate its data.
    pub(super) fn start(
        ground: &Ground,
        options: &Groups,
        (group, name, threads): Member<'_>,
        data: Data,
        touched: usize,
    ) -> Result<Self, Error> {
        let program =
            std::env::current_exe().map_err(Error::at("find", Path::new("this program")))?;
        let mut command = ground.inside(group);
        command.arg(program).args([work::NAME, "--threads", &threads.to_string()]);
        command.args(["--memory", &options.memory.to_string(), "--touched", &touched.to_string()]);
        let directory = match data {
            Data::Memory => None,
            Data::File => Some(ground.directory()),
            Data::MemoryFile => Some(Path::new("/dev/shm")),
        };
        if let Some(directory) = directory {
            let file = format!("{}-{name}.data", std::process::id());
            command.arg("--file").arg(directory.join(file));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::at("execute", Path::new("dayfly")))?;
        let input = child.stdin.take();
        let mut lines = child.stdout.take().map(BufReader::new);
        let mut instance = Self { name: name.to_owned(), child, input, told: None };
        let mut first = String::new();
        if let Some(lines) = &mut lines {
            lines.read_line(&mut first).map_err(Error::at("read from", Path::new(name)))?;
        }
        if first.trim() != "ready" {
            bail!("the instance in the group {name} did not start");
        }
        instance.told = lines.map(|lines| {
            std::thread::spawn(move || {
                lines.lines().map_while(Result::ok).filter_map(|line| tick(&line)).collect()
            })
        });
        Ok(instance)
    }

    /// Makes the instance begin its work.
    ///
    /// # Errors
    /// The instance has exited.
    pub(super) fn go(&mut self) -> Result<(), Error> {
        let gone = Error::at("write to", Path::new(&self.name));
        match &mut self.input {
            Some(input) => input.write_all(b"go\n").map_err(gone),
            None => Ok(()),
        }
    }

    /// Calls `change` while the instance is stopped (SIGSTOP): while it works, the kernel might not finish a reclaim of its
    /// memory, because the instance uses the same pages again.
    ///
    /// # Errors
    /// The instance has exited; those of `change`.
    pub(super) fn stopped(&self, change: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let pid = Pid::from_child(&self.child);
        let send =
            |signal| kill_process(pid, signal).map_err(Error::errno("kill", Path::new(&self.name)));
        send(Signal::STOP)?;
        let changed = change();
        send(Signal::CONT)?;
        changed
    }

    /// Ends the instance; returns its reports.
    pub(super) fn end(mut self) -> Vec<Tick> {
        drop(self.input.take());
        self.told.take().and_then(|told| told.join().ok()).unwrap_or_default()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tick(line: &str) -> Option<Tick> {
    let mut words = line.split_whitespace().map(|word| word.parse::<f64>().ok());
    let [at_ms, count, p99_us, cpu_us] = std::array::from_fn(|_| words.next().flatten());
    Some(Tick { at_ms: at_ms?, count: count?, p99_us: p99_us?, cpu_us: cpu_us? })
}

/// Returns the transactions per second in each tenth of a second between the times `from` and `to`, in ms since 1970. The
/// rate of an interval counts for each of its tenths: a throttled instance has long intervals with few transactions, and
/// short ones with many. The instance's first interval is omitted, because its beginning is unknown.
pub(super) fn rates(ticks: &[Tick], from: f64, to: f64) -> Vec<f64> {
    let both = ticks.windows(2).filter(|both| both[0].at_ms >= from && both[1].at_ms <= to);
    let of_tenths = both.flat_map(|both| {
        let ms = (both[1].at_ms - both[0].at_ms).max(1.0);
        std::iter::repeat_n(both[1].count / ms * 1e3, (ms / 100.0).round().max(1.0) as usize)
    });
    of_tenths.collect()
}

/// Returns the transactions per second of CPU time between the times `from` and `to`; `None` if there was none.
pub(super) fn per_cpu_s(ticks: &[Tick], from: f64, to: f64) -> Option<f64> {
    let within: Vec<&Tick> =
        ticks.iter().filter(|tick| tick.at_ms >= from && tick.at_ms <= to).collect();
    let cpu_us = within.last()?.cpu_us - within.first()?.cpu_us;
    let count: f64 = within.iter().skip(1).map(|tick| tick.count).sum();
    (cpu_us > 0.0).then(|| count / cpu_us * 1e6)
}

/// Returns the median of the 99th percentiles of the intervals that end between the times `from` and `to`.
pub(super) fn p99(ticks: &[Tick], from: f64, to: f64) -> Option<f64> {
    let is_in = |tick: &&Tick| tick.at_ms >= from && tick.at_ms <= to && tick.count > 0.0;
    let mut times: Vec<f64> = ticks.iter().filter(is_in).map(|tick| tick.p99_us).collect();
    (!times.is_empty()).then(|| median(&mut times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read() {
        let expected = Tick { at_ms: 1000.0, count: 20.0, p99_us: 3.5, cpu_us: 7.0 };
        assert_eq!(tick("1000 20 3.5 7"), Some(expected));
        for bad in ["", "ready", "1 2 3", "1 2 3 x"] {
            assert_eq!(tick(bad), None, "{bad}");
        }
    }

    #[test]
    fn rates_are_of_whole_ticks() {
        let ticks: Vec<Tick> = (0..6)
            .map(|at| Tick {
                at_ms: 1000.0 + 100.0 * f64::from(at),
                count: 10.0 * f64::from(at),
                p99_us: 5.0,
                cpu_us: 1e5 * f64::from(at),
            })
            .collect();
        assert_eq!(rates(&ticks, 1100.0, 1400.0), [200.0, 300.0, 400.0]);
        let throttled = [0.0, 900.0, 1000.0].map(|at_ms| Tick { at_ms, count: 9.0, ..ticks[0] });
        assert_eq!(rates(&throttled, 0.0, 1e3), [[10.0; 9].as_slice(), &[90.0]].concat());
        assert_eq!(p99(&ticks, 1100.0, 1400.0), Some(5.0));
        assert_eq!(p99(&ticks, 2000.0, 2100.0), None);
        assert_eq!(per_cpu_s(&ticks, 1100.0, 1400.0), Some(300.0));
        assert_eq!(per_cpu_s(&ticks, 2000.0, 2100.0), None);
        assert!(rates(&ticks[..1], 0.0, 1e12).is_empty());
    }
}
