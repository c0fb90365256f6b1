//! Probes the host's responsiveness by repeating the operations of a node's health check.
//!
//! Reading /proc/self/mountinfo takes the namespace's mount lock, and a fork with an exec takes the locks of clone,
//! cgroups and exec: both stall while a runtime holds these locks.

use crate::process;
use measure::statistics::Summary;
use serde::Serialize;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two probes.
const REST: Duration = Duration::from_millis(5);

/// The program that the probe executes.
const PROGRAM: &str = "/bin/true";

/// The probe's measurements, in microseconds.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Health {
    /// Times of reading /proc/self/mountinfo.
    pub read_us: Vec<f64>,
    /// Times from the fork of /bin/true to its end.
    pub spawn_us: Vec<f64>,
}

impl Health {
    /// The headings of [`Self::cells`].
    pub const HEADINGS: [&'static str; 7] =
        ["meanwhile, ms", "mountinfo", "p99", "max", "fork+exec", "p99", "max"];

    /// Adds another probe's measurements.
    pub fn extend(&mut self, other: Self) {
        self.read_us.extend(other.read_us);
        self.spawn_us.extend(other.spawn_us);
    }

    /// Formats a row: the median, 99th percentile and maximum of both kinds of times, in milliseconds.
    #[must_use]
    pub fn cells(&self, name: &str) -> Vec<String> {
        let mut cells = vec![name.to_owned()];
        for times in [&self.read_us, &self.spawn_us] {
            match Summary::of(times) {
                Some(times) => cells.extend(
                    [times.median, times.p99, times.max].map(|us| format!("{:.3}", us / 1e3)),
                ),
                None => cells.extend(["-"; 3].map(str::to_owned)),
            }
        }
        cells
    }
}

/// The probe.
#[derive(Debug)]
pub struct Probe;

impl Probe {
    /// Probes the host in a separate thread while `work` runs.
    pub fn watch<T>(work: impl FnOnce() -> T) -> (T, Health) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let probe = scope.spawn(|| {
                let mut health = Health::default();
                while !over.load(Ordering::Relaxed) {
                    look(&mut health);
                    thread::sleep(REST);
                }
                health
            });
            let done = work();
            over.store(true, Ordering::Relaxed);
            (done, probe.join().unwrap_or_default())
        })
    }
}

fn look(health: &mut Health) {
    let start = Instant::now();
    if fs::read("/proc/self/mountinfo").is_ok() {
        health.read_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let mut program = Command::new(PROGRAM);
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(sample) = process::run(&mut program, Duration::from_secs(60)) {
        health.spawn_us.push(sample.wall.as_secs_f64() * 1e6);
    }
}
