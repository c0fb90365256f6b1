//! The state of a followed process or thread.

use crate::follow::{Event, call_name};
use rustix::process::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use sys::ptrace::{Call, Place};

/// Results of an interrupted call that the kernel will restart (include/linux/errno.h: ERESTARTSYS, ERESTARTNOINTR,
/// ERESTARTNOHAND, ERESTART_RESTARTBLOCK). Only tracers see them.
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// One process or thread.
#[derive(Debug)]
pub(crate) struct Tracee {
    /// The process that the tracee belongs to.
    pub(crate) process: Pid,
    /// Instructions since the tracee's creation or its last execve(2).
    pub(crate) instructions: u64,
    /// Whether the tracee was resumed by a single step.
    pub(crate) steps: bool,
    /// The system call that the tracee is in.
    call: Option<u64>,
    /// The system call that will be restarted.
    restarts: Option<u64>,
    /// The address where the last step ended.
    instruction: Option<u64>,
}

impl Tracee {
    pub(crate) fn new(process: Pid) -> Self {
        Self {
            process,
            instructions: 0,
            steps: false,
            call: None,
            restarts: None,
            instruction: None,
        }
    }

    /// Returns the event of a stop at the entry or the exit of a system call, or `None` for the interruption of a call and for its
    /// restart. Tracing makes these more frequent, because even ignored signals stop a tracee.
    pub(crate) fn cross(&mut self, call: Call) -> Option<Event> {
        match call {
            Call::Entry { number, args, arch } => {
                let before = self.restarts.take();
                if let Some(before) = before
                    && (number == before || call_name(number) == "restart_syscall")
                {
                    self.call = Some(before);
                    return None;
                }
                self.call = Some(number);
                Some(Event::Entered { number, args, arch })
            }
            Call::Exit(result) => {
                let number = self.call.take()?;
                if RESTARTS.contains(&result) {
                    self.restarts = Some(number);
                    return None;
                }
                let result = sys::raw::check(result as isize).map(|value| value as u64);
                Some(Event::Left { number, result })
            }
        }
    }

    /// Counts a step. A repeated string instruction takes a step per iteration at the same address, but counts once.
    pub(crate) fn step(&mut self, place: Place) -> bool {
        let moved = self.instruction != Some(place.instruction);
        self.instruction = Some(place.instruction);
        self.instructions += u64::from(moved);
        moved
    }

    /// Handles an execve(2); returns the number of instructions of the previous program.
    pub(crate) fn execute(&mut self) -> u64 {
        (self.call, self.restarts, self.instruction) = (None, None, None);
        std::mem::take(&mut self.instructions)
    }
}

/// Returns the process of a thread from /proc, or the thread itself if that fails.
pub(crate) fn process_of(pid: Pid) -> Pid {
    let status = fs::read_to_string(proc(pid, "status")).unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    field.and_then(|text| text.trim().parse().ok()).and_then(Pid::from_raw).unwrap_or(pid)
}

/// Returns the arguments of a process's program.
pub(crate) fn command_of(pid: Pid) -> Vec<String> {
    let text = fs::read(proc(pid, "cmdline")).unwrap_or_default();
    let text = text.strip_suffix(&[0]).unwrap_or(&text);
    text.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// Returns whether the root directory of a process differs from ours.
pub(crate) fn is_contained(pid: Pid) -> bool {
    let root = |path: &str| fs::metadata(path).map(|root| (root.dev(), root.ino())).ok();
    let its = root(&proc(pid, "root"));
    its.is_some() && its != root("/")
}

fn proc(pid: Pid, file: &str) -> String {
    format!("/proc/{}/{file}", pid.as_raw_pid())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 0;
    const ARGS: [u64; 6] = [0; 6];

    fn tracee() -> Tracee {
        Tracee::new(Pid::INIT)
    }

    #[test]
    fn an_interrupted_call_is_told_once() {
        let mut tracee = tracee();
        let entry = Call::Entry { number: READ, args: ARGS, arch: 7 };
        let entered = Event::Entered { number: READ, args: ARGS, arch: 7 };
        assert_eq!(tracee.cross(entry), Some(entered));
        assert_eq!(tracee.cross(Call::Exit(-512)), None);
        assert_eq!(tracee.cross(entry), None);
        assert_eq!(tracee.cross(Call::Exit(5)), Some(Event::Left { number: READ, result: Ok(5) }));
        assert!(tracee.cross(entry).is_some());
    }

    #[test]
    fn a_repeated_instruction_counts_once() {
        let mut tracee = tracee();
        for instruction in [10, 10, 10, 12, 10] {
            tracee.step(Place { instruction, call: None });
        }
        assert_eq!(tracee.instructions, 3);
        assert_eq!(tracee.execute(), 3);
        assert_eq!(tracee.instructions, 0);
    }
}
