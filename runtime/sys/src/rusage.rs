//! wait4(2): waits for the exit of a child, and reads its resource usage.

use core::time::Duration;
use rustix::io::Errno;
use rustix::process::Pid;

#[cfg(target_arch = "x86_64")]
const WAIT4: usize = 61;
#[cfg(target_arch = "aarch64")]
const WAIT4: usize = 260;

/// The resource usage of a process, including the children that it has waited for (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode; see [`Self::cpu`].
    pub user: Duration,
    /// CPU time in the kernel; see [`Self::cpu`].
    pub system: Duration,
    /// The largest resident set size in KiB: the maximum over the processes, not the sum.
    pub peak_kib: u64,
    /// Page faults that required no I/O.
    pub minor_faults: u64,
    /// Page faults that required I/O.
    pub major_faults: u64,
    /// Voluntary context switches: the process blocked.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the process was preempted, or its time slice ended.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Returns the total CPU time. The total is exact, because the scheduler measures it. User and system time alone
    /// are estimates on kernels that split the total in proportion to sampled ticks (CONFIG_TICK_CPU_ACCOUNTING).
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process exited with this status.
    Exited(i32),
    /// This signal killed the process.
    Killed(i32),
}

/// Waits until the child `pid` has exited, and reaps it.
///
/// # Errors
/// ECHILD if `pid` is not a child of the caller, EINTR if a signal arrived first.
pub fn wait4(pid: Pid) -> Result<(End, Usage), Errno> {
    let mut status = 0_i32;
    // struct rusage consists of two timevals and fourteen counters; each field is as wide as a register.
    let mut raw = [0_i64; 18];
    let args = crate::raw::args![pid.as_raw_pid(), &raw mut status, 0, &raw mut raw,];
    // SAFETY: both pointers refer to local variables of the sizes that the kernel writes.
    unsafe { crate::raw::call(WAIT4, args) }?;
    let end = match status & 0x7f {
        0 => End::Exited((status >> 8) & 0xff),
        signal => End::Killed(signal),
    };
    Ok((end, usage(&raw)))
}

fn usage(raw: &[i64; 18]) -> Usage {
    let [user_s, user_us, system_s, system_us, peak, _, _, _, minor, major, ..] = *raw;
    let [.., voluntary, involuntary] = *raw;
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    let time = |s: i64, us: i64| Duration::from_secs(count(s)) + Duration::from_micros(count(us));
    Usage {
        user: time(user_s, user_us),
        system: time(system_s, system_us),
        peak_kib: count(peak),
        minor_faults: count(minor),
        major_faults: count(major),
        voluntary_switches: count(voluntary),
        involuntary_switches: count(involuntary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[expect(clippy::zombie_processes, reason = "wait4 is what reaps it")]
    fn run(script: &str) -> (End, Usage) {
        let child = Command::new("/bin/sh").args(["-c", script]).spawn().expect("spawn sh");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("pid");
        wait4(pid).expect("wait4")
    }

    #[test]
    fn tells_the_exit_status() {
        assert_eq!(run("exit 7").0, End::Exited(7));
    }

    #[test]
    fn tells_the_signal() {
        assert_eq!(run("kill -9 $$").0, End::Killed(9));
    }

    #[test]
    fn tells_what_was_used() {
        let (_, usage) = run("i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done");
        assert!(usage.user > Duration::ZERO, "{usage:?}");
        assert!(usage.peak_kib > 100, "{usage:?}");
        assert!(usage.minor_faults > 10, "{usage:?}");
    }

    #[test]
    fn refuses_a_stranger() {
        assert_eq!(wait4(Pid::INIT), Err(Errno::CHILD));
    }
}
