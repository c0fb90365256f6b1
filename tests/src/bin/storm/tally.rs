//! Counts the commands that were run and killed, and collects the failures.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Create,
    Start,
    Run,
    Exec,
    Pause,
    Resume,
    Kill,
    Delete,
}

pub const VERBS: [Verb; 8] = [
    Verb::Create,
    Verb::Start,
    Verb::Run,
    Verb::Exec,
    Verb::Pause,
    Verb::Resume,
    Verb::Kill,
    Verb::Delete,
];

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Run => "run",
            Self::Exec => "exec",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Kill => "kill",
            Self::Delete => "delete",
        }
    }
}

/// The number of failures after which the storm stops.
const ENOUGH: usize = 40;

#[derive(Debug, Default)]
struct Count {
    calls: AtomicU64,
    kills: AtomicU64,
    /// A moving average of the duration of a call, in microseconds.
    usual: AtomicU64,
}

/// The counts of all workers.
#[derive(Debug, Default)]
pub struct Tally {
    verbs: [Count; VERBS.len()],
    cycles: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    pub fn cycle(&self) {
        self.cycles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that has ended or was killed.
    pub fn called(&self, verb: Verb, took: Duration, killed: bool) {
        let count = &self.verbs[verb as usize];
        count.calls.fetch_add(1, Ordering::Relaxed);
        if killed {
            count.kills.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usual = count.usual.load(Ordering::Relaxed);
        // Concurrent updates may be lost, which does not matter.
        count
            .usual
            .store(if usual == 0 { took } else { (usual * 15 + took) / 16 }, Ordering::Relaxed);
    }

    /// Returns the moving average of the duration of a call, in microseconds, but at least 1000.
    pub fn usual(&self, verb: Verb) -> u64 {
        self.verbs[verb as usize].usual.load(Ordering::Relaxed).max(1000)
    }

    pub fn failed(&self, what: String) {
        self.failures.lock().expect("failures").push(what);
    }

    pub fn is_over(&self) -> bool {
        self.failures.lock().expect("failures").len() >= ENOUGH
    }

    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("failures").clone()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Count) -> &AtomicU64| -> u64 {
            self.verbs.iter().map(|count| of(count).load(Ordering::Relaxed)).sum()
        };
        let (calls, kills) = (sum(|count| &count.calls), sum(|count| &count.kills));
        write!(f, "{} cycles, ", self.cycles.load(Ordering::Relaxed))?;
        write!(f, "{calls} commands, {kills} killed (")?;
        for (index, (verb, count)) in VERBS.iter().zip(&self.verbs).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
            write!(f, "{comma}{} {} of {}", verb.name(), load(&count.kills), load(&count.calls))?;
        }
        write!(f, ")")
    }
}
