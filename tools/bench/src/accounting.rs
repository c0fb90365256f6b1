//! Whether this kernel can tell a short command's time in user mode from that in the kernel.
//!
//! What wait4(2) tells of CPU time is user and system time in sum, and that sum is exact on every kernel: it
//! is the scheduler's own clock (`sum_exec_runtime`, in nanoseconds) of all threads, those that ended
//! before included, and of all children that were waited for. How the sum is divided is another matter. With
//! CONFIG_TICK_CPU_ACCOUNTING, which most kernels have, the kernel counts in which mode each timer tick,
//! 1 to 10 ms apart, found the process, and divides in proportion: a command that saw no tick, or one, has
//! all of its time on one side. Kernels that account at each change of mode (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE,
//! or _GEN on CPUs of `nohz_full=`) divide exactly.
//!
//! To sum up the time in system calls instead costs more than what it would show: followed by ptrace(2) a start
//! takes several times as long, and each of its 400 system calls tens of microseconds longer within what is seen of
//! it (`trace --outside` prints both). Tracepoints take a microsecond a call, a fifth of a 2 ms run, and count page
//! faults and interrupts as user time. So reports say nothing of the parts where the kernel can't.

use crate::process;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// How many short commands are looked at.
const COMMANDS: usize = 6;

/// Whether user and system time of a short command are exact here, found out by some: each has both where they
/// are; by ticks one of the two is none.
pub fn is_split() -> bool {
    static IS_SPLIT: OnceLock<bool> = OnceLock::new();
    *IS_SPLIT.get_or_init(|| {
        (0..COMMANDS).all(|_| {
            let mut command = Command::new("/bin/true");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let sample = process::run(&mut command, Duration::from_secs(5));
            sample
                .is_ok_and(|sample| !sample.usage.user.is_zero() && !sample.usage.system.is_zero())
        })
    })
}

/// What CPU times in reports are.
#[must_use]
pub fn note(is_split: bool) -> &'static str {
    if is_split {
        "CPU: by the scheduler's clock, with the children that were waited for\n"
    } else {
        "CPU: by the scheduler's clock, with the children that were waited for. This kernel divides it into user and \
         system time by its ticks: that can't be shown for commands this short\n"
    }
}
