//! Determines whether this kernel can separate a short command's user time from its system time.
//!
//! The sum of user and system time that wait4(2) reports is exact on every kernel: it comes from
//! the scheduler's clock (`sum_exec_runtime`, in nanoseconds) of all threads, including those that
//! have ended, and of all children that were waited for. The division of the sum is less exact.
//! With CONFIG_TICK_CPU_ACCOUNTING, which most kernels have, a timer tick comes every 1 to 10 ms.
//! Each tick counts the mode, user or system, in which it finds the process, and the kernel divides
//! the sum in proportion to these counts. If at most one tick comes while a command runs, all of
//! its time is counted as user time, or all of it as system time. Kernels that account at each
//! change of mode (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE, or _GEN on CPUs of `nohz_full=`) divide the
//! sum exactly.
//!
//! The times of all system calls could be added up instead, but measuring them distorts the result:
//! under ptrace(2) a start takes several times as long, and each of its 400 system calls appears
//! tens of microseconds longer (`trace --outside` prints both). Tracepoints take a microsecond per
//! call, which is 0.4 ms for 400 calls, a fifth of a 2 ms run; and they count page faults and
//! interrupts as user time. So reports omit user and system time where the kernel can't separate
//! them.

use crate::process;
use std::sync::OnceLock;
use std::time::Duration;

/// The number of short commands examined.
const COMMANDS: usize = 6;

/// Returns whether the user time and the system time of a short command are exact on this kernel. The function runs
/// some commands: if the times are exact, both are above zero for each command; with ticks, one of the two is zero.
pub fn is_split() -> bool {
    static IS_SPLIT: OnceLock<bool> = OnceLock::new();
    *IS_SPLIT.get_or_init(|| {
        (0..COMMANDS).all(|_| {
            let sample = process::run(&mut process::quiet("/bin/true"), Duration::from_secs(5));
            sample
                .is_ok_and(|sample| !sample.usage.user.is_zero() && !sample.usage.system.is_zero())
        })
    })
}

/// Returns an explanation of the CPU times in reports.
pub fn note(is_split: bool) -> &'static str {
    if is_split {
        "CPU: by the scheduler's clock, with the children that were waited for\n"
    } else {
        "CPU: by the scheduler's clock, with the children that were waited for. This kernel divides it into user and \
         system time by its ticks: that can't be shown for commands this short\n"
    }
}
