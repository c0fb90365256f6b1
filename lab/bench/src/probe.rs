//! Probes the host's responsiveness by repeating the operations of a node's health check.
//!
//! Reading /proc/self/mountinfo takes the namespace's mount lock, and a fork with an exec takes the locks of clone,
//! cgroups and exec: both stall while a runtime holds these locks.

use crate::harness::*;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Adds another probe's measurements.
    pub fn extend(&mut self, other: Self) {
        self.read_us.extend(other.read_us);
        self.spawn_us.extend(other.spawn_us);
    }

    /// Adds the times to the figures of an entrant in a case.
    pub(crate) fn add_to(&self, figures: &mut Figures, case: &str, entrant: &str) {
        for (what, times) in [("mountinfo", &self.read_us), ("fork+exec", &self.spawn_us)] {
            let ms = times.iter().map(|us| us / 1e3);
            figures.singles(format!("{case}: {what} meanwhile"), "ms", entrant, ms);
        }
    }
}

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

fn look(health: &mut Health) {
    let start = Instant::now();
    if fs::read("/proc/self/mountinfo").is_ok() {
        health.read_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    if let Ok(sample) = process::run(&mut process::quiet(PROGRAM), Duration::from_secs(60)) {
        health.spawn_us.push(sample.wall.as_secs_f64() * 1e6);
    }
}
