//! Determines the weight of a command: system calls, instructions and peak memory.
//!
//! Weights come from separate rounds, in which the runtime is traced by ptrace(2). Tracing slows the runtime, so these
//! rounds are not timed. The container's own program is not counted.

use crate::base::*;
use crate::held;
use crate::process::{Failure, Sample};
use crate::weight::{Way, Weight};
use host::follow::{self, End, Event, Mode, call_name, count, follow};

/// Executes `command`, traced call by call or instruction by instruction. stderr goes to `errors`; stdin and stdout are
/// /dev/null.
///
/// # Errors
/// Any end except exit status 0.
pub fn weigh(
    command: &Command,
    errors: File,
    way: Way,
    deadline: Duration,
) -> Result<Sample, Failure> {
    let followed = followed(command, errors);
    let (end, weight) = match way {
        Way::Instructions(bound) => {
            let mode = Mode::Instructions { bound };
            let report = count(&followed, mode, deadline).map_err(failure)?;
            let instructions = report.complete.then(|| report.instructions() as f64);
            (report.end, Weight { instructions, ..Weight::default() })
        }
        _ => {
            let mut seen = Seen::default();
            let mut look = |pid: rustix::process::Pid, event| seen.take(pid.as_raw_pid(), &event);
            let end = follow(&followed, Mode::Syscalls, deadline, &mut look).map_err(failure)?;
            (end, seen.weight)
        }
    };
    ended(end, Sample { weight, ..Sample::default() })
}

/// Prepares `command` for tracing: stderr goes to `errors`; stdin and stdout are /dev/null.
pub(crate) fn followed(command: &Command, errors: File) -> follow::Command {
    let mut followed =
        follow::Command::new(command.get_program()).args(command.get_args()).stderr(errors);
    for (name, value) in command.get_envs() {
        followed = followed.env(name, value.unwrap_or_default());
    }
    followed
}

/// Converts an error of tracing.
pub(crate) fn failure(error: follow::Error) -> Failure {
    match error {
        follow::Error::Deadline { after, .. } => Failure::Overdue(after),
        error => Failure::Left(error.to_string()),
    }
}

/// Returns the sample of a command traced to its end.
pub(crate) fn ended(end: End, sample: Sample) -> Result<Sample, Failure> {
    match end {
        End::Exited(0) => Ok(sample),
        End::Exited(status) => Err(Failure::Ended(sys::rusage::End::Exited(status))),
        End::Killed(signal) => Err(Failure::Ended(sys::rusage::End::Killed(signal))),
        end => Err(Failure::Left(format!("{end:?}"))),
    }
}

/// The observations of a command.
#[derive(Default)]
struct Seen {
    /// Whether the command's program has been executed: before that, the process is a copy of this program.
    begun: bool,
    weight: Weight,
}

impl Seen {
    fn take(&mut self, pid: i32, event: &Event) {
        match event {
            Event::Executed { .. } => self.begun = true,
            Event::Entered { number, .. } if self.begun => {
                self.weight.system_calls += 1.0;
                // A process loses its memory in these calls, so the peak is read when the process enters them.
                if matches!(call_name(*number), "exit" | "exit_group" | "execve" | "execveat") {
                    self.weight.peak_kib =
                        self.weight.peak_kib.max(held::of(pid, "status", "VmHWM:"));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weigh_sh(script: &str, way: Way) -> Weight {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let null = File::options().write(true).open("/dev/null").expect("open /dev/null");
        weigh(&command, null, way, Duration::from_secs(60)).expect("weigh sh").weight
    }

    #[test]
    fn calls_and_memory() {
        let weight = weigh_sh(":", Way::Calls);
        assert!(weight.system_calls > 10.0 && weight.system_calls < 1000.0, "{weight:?}");
        assert!(weight.peak_kib > 100.0 && weight.peak_kib < 10_000.0, "{weight:?}");
        let more = weigh_sh("/bin/true; /bin/true; :", Way::Calls);
        assert!(more.system_calls > weight.system_calls, "{more:?}");
    }

    #[test]
    fn instructions_up_to_a_bound() {
        let weight = weigh_sh(":", Way::Instructions(5_000_000));
        assert!(weight.instructions.is_some_and(|count| count > 10_000.0), "{weight:?}");
        assert_eq!(weigh_sh(":", Way::Instructions(1000)).instructions, None);
    }
}
