//! The resources for which requests and pods wait: a limit of requests per second, a queue with one server, and a
//! node's CPUs.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A time in seconds, with a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct At(pub(super) f64);

impl Eq for At {}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The settings of a token bucket, as in Kubernetes' clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    /// The number of requests per second.
    pub(super) qps: f64,
    /// The number of requests that may be made at once after a pause.
    pub(super) burst: f64,
}

/// A token bucket. A caller that takes more tokens than there are waits until the missing tokens have been added.
/// Callers are served in order.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: Limit,
    /// The number of tokens at the time `at`; negative if callers wait for tokens.
    level: f64,
    at: f64,
}

impl Bucket {
    pub(super) fn new(limit: Limit) -> Self {
        Self { limit, level: limit.burst, at: 0.0 }
    }

    /// Takes `count` tokens at the time `now`, which must not be before that of an earlier call. Returns the time at
    /// which the last of these tokens is available.
    pub(super) fn take(&mut self, now: f64, count: f64) -> f64 {
        let Limit { qps, burst } = self.limit;
        self.level = (self.level + (now - self.at) * qps).min(burst) - count;
        self.at = now;
        if self.level < 0.0 { now - self.level / qps } else { now }
    }
}

/// A queue with one server, which answers requests in order.
#[derive(Debug)]
pub(super) struct Queue {
    /// The number of requests answered per second; `None` if all requests are answered at once.
    rate: Option<f64>,
    free: f64,
}

impl Queue {
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self { rate, free: 0.0 }
    }

    /// Makes `count` requests at the time `now`. Returns the time of the last answer.
    pub(super) fn ask(&mut self, now: f64, count: f64) -> f64 {
        let Some(rate) = self.rate else { return now };
        self.free = self.free.max(now) + count / rate;
        self.free
    }
}

/// The CPUs of a node. All jobs run at the same speed, and none uses more than one CPU, as threads of equal weight do
/// under the kernel's fair scheduler.
///
/// The *progress* is the CPU time of a job that has run since the beginning. A job that is added later ends when the
/// progress has grown by the job's work. So the order in which jobs end never changes, and each operation takes
/// logarithmic time.
#[derive(Debug)]
pub(super) struct Processor {
    cores: f64,
    progress: f64,
    at: f64,
    jobs: BinaryHeap<Reverse<(At, usize)>>,
}

impl Processor {
    pub(super) fn new(cores: f64) -> Self {
        Self { cores, progress: 0.0, at: 0.0, jobs: BinaryHeap::new() }
    }

    fn speed(&self) -> f64 {
        (self.cores / self.jobs.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: f64) {
        self.progress += (now - self.at) * self.speed();
        self.at = now;
    }

    /// Adds a job at the time `now`, with its work in seconds of CPU time.
    pub(super) fn add(&mut self, now: f64, job: usize, work: f64) {
        self.advance(now);
        self.jobs.push(Reverse((At(self.progress + work), job)));
    }

    /// Sets the number of CPUs from the time `now` on.
    pub(super) fn resize(&mut self, now: f64, cores: f64) {
        self.advance(now);
        self.cores = cores;
    }

    /// Returns the time at which the next job ends if nothing changes before.
    pub(super) fn next(&self) -> Option<f64> {
        let Reverse((end, _)) = self.jobs.peek()?;
        Some(self.at + (end.0 - self.progress).max(0.0) / self.speed())
    }

    /// Removes the job that ends at the time `now`, which [`Self::next`] returned.
    pub(super) fn end(&mut self, now: f64) -> Option<usize> {
        let Reverse((end, job)) = self.jobs.pop()?;
        // Until now, this job shared the CPUs with all others, so the progress is now the end of this job.
        self.progress = self.progress.max(end.0);
        self.at = now;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(Limit { qps: 10.0, burst: 2.0 });
        let times: Vec<f64> = (0..4).map(|_| bucket.take(0.0, 1.0)).collect();
        assert!(near(times[1], 0.0) && near(times[2], 0.1) && near(times[3], 0.2), "{times:?}");
        // However long the pause, the bucket is refilled only up to its burst.
        assert!(near(bucket.take(100.0, 2.0), 100.0) && near(bucket.take(100.0, 3.0), 100.3));
        assert!(near(Bucket::new(Limit { qps: 10.0, burst: 2.0 }).take(0.0, 12.0), 1.0));
    }

    #[test]
    fn a_queue_answers_one_after_the_other() {
        let mut queue = Queue::new(Some(4.0));
        assert!(near(queue.ask(0.0, 1.0), 0.25) && near(queue.ask(0.0, 2.0), 0.75));
        assert!(near(queue.ask(5.0, 1.0), 5.25));
        assert!(near(Queue::new(None).ask(3.0, 1e9), 3.0));
    }

    #[test]
    fn jobs_share_the_cpus() {
        let mut cpus = Processor::new(2.0);
        cpus.add(0.0, 1, 1.0);
        assert!(near(cpus.next().expect("one"), 1.0), "one job has one CPU at most");
        cpus.add(0.0, 2, 2.0);
        cpus.add(0.0, 3, 3.0);
        // Three jobs on two CPUs have 2/3 of a CPU each, until the first job has had one second of CPU time.
        let first = cpus.next().expect("three");
        assert!(near(first, 1.5) && cpus.end(first) == Some(1));
        let second = cpus.next().expect("two");
        assert!(near(second, 2.5) && cpus.end(second) == Some(2));
        // On half a CPU, the last second of CPU time takes two seconds.
        cpus.resize(second, 0.5);
        let third = cpus.next().expect("one");
        assert!(near(third, 4.5) && cpus.end(third) == Some(3));
        assert_eq!((cpus.next(), cpus.end(9.0)), (None, None));
    }
}
