//! Measures a container's memory.

use crate::harness::*;
use crate::held::{charged, held, namespace};
use std::os::unix::fs::FileExt;

/// The method of measuring memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum By {
    /// The memory charged to the container's cgroup.
    #[serde(rename = "charged to the container's cgroup")]
    Charged,
    /// The proportional set size of the container's processes: resident memory, with shared pages divided by the number
    /// of processes sharing them.
    #[serde(rename = "resident, shared pages in parts (smaps_rollup)")]
    Resident,
}

impl By {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Charged => "as charged to containers' cgroups",
            Self::Resident => {
                "as resident by smaps_rollup, shared pages in parts: there is no memory controller"
            }
        }
    }
}

/// A file that shows a container's memory usage, and can be read repeatedly.
#[derive(Debug)]
pub(super) enum Meter {
    /// The file that shows the memory charged to the container's cgroup.
    Charged(File),
    /// The container's processes. Their files are opened for each reading, because an open file shows the address space
    /// that the process had when the file was opened, even after an exec.
    Resident(Vec<i32>),
}

impl Meter {
    /// Returns the meter of the container whose first process has the pid `pid`; `None` if the process has exited. With
    /// `is_forked`, the program is another process of the same PID namespace. The meter is valid until the first process
    /// is waited for.
    pub(super) fn of(pid: i32, is_forked: bool) -> Option<Self> {
        fs::exists(format!("/proc/{pid}/cgroup")).ok().filter(|exists| *exists)?;
        let charged = charged(pid).and_then(|path| File::open(path).ok());
        let resident = || Self::Resident(if is_forked { namespace(pid) } else { vec![pid] });
        Some(charged.map_or_else(resident, Self::Charged))
    }

    pub(super) fn by(&self) -> By {
        match self {
            Self::Charged(_) => By::Charged,
            Self::Resident(_) => By::Resident,
        }
    }

    /// Returns the container's present memory, in KiB; `None` after its end.
    pub(super) fn kib(&self) -> Option<f64> {
        match self {
            Self::Charged(file) => {
                let mut buffer = [0; 32];
                let length = file.read_at(&mut buffer, 0).ok()?;
                let text = std::str::from_utf8(&buffer[..length]).ok()?;
                text.trim().parse::<f64>().ok().map(|bytes| bytes / 1024.0)
            }
            Self::Resident(pids) => Some(held(pids).pss_kib).filter(|kib| *kib > 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use rustix::process::Pid;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn this_process_has_memory() {
        let pid = std::process::id().cast_signed();
        let meter = Meter::Resident(vec![pid]);
        let before = meter.kib().expect("read");
        let held = std::hint::black_box(vec![1_u8; 8 << 20]);
        let after = meter.kib().expect("read again");
        assert!(before > 100.0 && after > before + 7000.0, "{before} {after}");
        drop(held);
        assert!(Meter::of(pid, true).is_some());
        assert!(Meter::of(i32::MAX, false).is_none());
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "process::wait is what reaps it")]
    fn another_program_is_seen() {
        // The first program is large, the second one small.
        let script = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo 1; read l; exec /bin/cat";
        let mut command = Command::new("/bin/bash");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("bash");
        let (mut stdin, mut stdout) =
            (child.stdin.take().expect("pipe"), child.stdout.take().expect("pipe"));
        let mut said = |count: usize| stdout.read_exact(&mut vec![0; count]).expect("an answer");
        said(2);
        let meter = Meter::Resident(vec![child.id().cast_signed()]);
        let before = meter.kib().expect("bash");
        stdin.write_all(b"go\n").expect("write");
        stdin.write_all(b"cat\n").expect("write");
        said(4);
        let after = meter.kib().expect("cat");
        assert!(before > 7000.0 && after < 3000.0, "{before} {after}");
        drop(stdin);
        process::wait(Pid::from_child(&child), Duration::from_secs(10)).expect("its end");
    }
}
