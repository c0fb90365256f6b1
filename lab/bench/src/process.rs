//! Runs one command, and measures its resource usage and its time from before the spawn until its end.

use crate::base::*;
use crate::weight::Weight;
use rustix::event::{Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{WaitOptions, kill_process_group, wait as wait_any};
use std::ffi::OsStr;
use std::io::{Read, Seek};
use std::ops::Add;
use std::os::unix::process::CommandExt;
use sys::rusage::{End, Usage, wait4};

/// The measurements of one command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// The time from before the spawn until this process noticed the command's exit.
    pub wall: Duration,
    /// The usage of the command and of the children it waited for.
    pub usage: Usage,
    /// The counts, if the command was traced instead of timed.
    pub weight: Weight,
}

impl Add for Sample {
    type Output = Self;

    /// Adds the sample of the next command: times and counts are added; of the memory peaks, the larger one is kept.
    fn add(self, other: Self) -> Self {
        let (a, b) = (self.usage, other.usage);
        let usage = Usage {
            user: a.user + b.user,
            system: a.system + b.system,
            peak_kib: a.peak_kib.max(b.peak_kib),
            minor_faults: a.minor_faults + b.minor_faults,
            major_faults: a.major_faults + b.major_faults,
            voluntary_switches: a.voluntary_switches + b.voluntary_switches,
            involuntary_switches: a.involuntary_switches + b.involuntary_switches,
        };
        Self { wall: self.wall + other.wall, usage, weight: self.weight.and(other.weight) }
    }
}

/// The reason why there is no sample of a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command could not be executed.
    #[error("can't be executed: {0}")]
    Spawn(std::io::Error),
    /// The command ended with a status other than 0.
    #[error("{}", told(*.0))]
    Ended(End),
    /// The command was killed at the deadline.
    #[error("no end after {0:?}, killed")]
    Overdue(Duration),
    /// The end of the command could not be waited for.
    #[error("wait: {0}")]
    Wait(Errno),
    /// Another failure. For example, the command did not create a file that the next step requires.
    #[error("{0}")]
    Left(String),
    /// SIGINT or SIGTERM arrived.
    #[error("interrupted")]
    Interrupted,
}

fn told(end: End) -> String {
    match end {
        End::Exited(status) => format!("exit status {status}"),
        End::Killed(signal) => format!("killed by signal {signal}"),
    }
}

/// Returns a command without input, whose output is discarded.
pub fn quiet(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs `command` to its end, in its own process group, which is killed at the deadline.
///
/// # Errors
/// Any end except exit status 0.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Sample, Failure> {
    let (pid, start) = begin(command)?;
    finish(pid, start, deadline)
}

/// Starts a command in a process group of its own, and returns when.
fn begin(command: &mut Command) -> Result<(Pid, Instant), Failure> {
    // posix_spawn uses vfork, so the size of this process does not matter.
    command.process_group(0);
    let start = Instant::now();
    let child = command.spawn().map_err(Failure::Spawn)?;
    Ok((Pid::from_child(&child), start))
}

/// Waits for the end of a command, and kills its process group at the deadline.
fn finish(pid: Pid, start: Instant, deadline: Duration) -> Result<Sample, Failure> {
    let ended = wait(pid, deadline);
    let wall = start.elapsed();
    let (end, usage) = ended.inspect_err(|_| {
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = reap(pid);
    })?;
    match end {
        End::Exited(0) => Ok(Sample { wall, usage, weight: Weight::default() }),
        end => Err(Failure::Ended(end)),
    }
}

/// Makes an empty file in memory.
pub(crate) fn in_memory() -> std::io::Result<File> {
    Ok(memfd_create("dayfly-bench", MemfdFlags::CLOEXEC)?.into())
}

/// Returns such a file, and a copy to which a command can write.
///
/// # Errors
/// Those of memfd_create(2) and dup(2).
pub(crate) fn captured() -> std::io::Result<(File, File)> {
    let file = in_memory()?;
    let copy = file.try_clone()?;
    Ok((file, copy))
}

/// Returns what was written to a file, from its beginning.
pub(crate) fn content(mut file: &File) -> String {
    let mut text = Vec::new();
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs `command` like [`run`]. The error also has the last line that the command wrote to stderr.
///
/// # Errors
/// As [`run`], as a text.
pub fn run_and_hear(command: &mut Command, deadline: Duration) -> Result<Sample, String> {
    let (errors, copy) = captured().map_err(|error| format!("make memfd: {error}"))?;
    run(command.stderr(copy), deadline).map_err(|failure| {
        let text = content(&errors);
        let said = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("{failure}: {}", said.trim())
    })
}

/// Runs `command` to its end like [`run`], and also returns the time until its first output.
///
/// # Errors
/// As for [`run`]; no output.
pub fn run_until_output(
    command: &mut Command,
    deadline: Duration,
) -> Result<(Duration, Sample), Failure> {
    let (output, end) = std::io::pipe().map_err(Failure::Spawn)?;
    let (pid, start) = begin(command.stdout(end))?;
    // Else the command keeps an end of the pipe.
    command.stdout(Stdio::null());
    let is_ready = ready(&mut [PollFd::new(&output, PollFlags::IN)], start, deadline);
    let begun = start.elapsed();
    let sample = finish(pid, start, deadline)?;
    is_ready.map(|_| (begun, sample))
}

/// Runs `command` to its end like [`run`], and returns its stdout.
///
/// # Errors
/// Any end except exit status 0.
pub fn read(command: &mut Command, deadline: Duration) -> Result<String, Failure> {
    let (output, copy) = captured().map_err(Failure::Spawn)?;
    run(command.stdout(copy), deadline)?;
    Ok(content(&output))
}

/// Runs `command` until it ends or is killed at the deadline, ignoring its status, and reaps every other child that
/// ends meanwhile. These are orphans of killed commands; a PID namespace does not end before its processes are reaped.
/// No other thread may have children.
pub fn run_and_reap(command: &mut Command, deadline: Duration) {
    const MOMENT: Duration = Duration::from_millis(2);
    let Ok(child) = command.process_group(0).spawn() else { return };
    let (pid, due) = (Pid::from_child(&child), Instant::now() + deadline);
    loop {
        match wait_any(WaitOptions::NOHANG) {
            Ok(Some((ended, _))) if ended == pid => return,
            Ok(None) if Instant::now() > due => {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = reap(pid);
                return;
            }
            Ok(None) => thread::sleep(MOMENT),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Waits until the child `pid`, which may be adopted, has ended, and reaps it.
///
/// # Errors
/// The deadline has passed, `pid` is not a child, or a signal arrived.
pub fn wait(pid: Pid, deadline: Duration) -> Result<(End, Usage), Failure> {
    ended(pid, deadline)?;
    reap(pid)
}

fn reap(pid: Pid) -> Result<(End, Usage), Failure> {
    loop {
        match wait4(pid) {
            Err(Errno::INTR) => {}
            result => return result.map_err(Failure::Wait),
        }
    }
}

/// Waits until `pid` has ended, using a pidfd: the deadline then needs no second thread.
fn ended(pid: Pid, deadline: Duration) -> Result<(), Failure> {
    let pidfd: OwnedFd = pidfd_open(pid, PidfdFlags::empty()).map_err(Failure::Wait)?;
    match ready(&mut [PollFd::new(&pidfd, PollFlags::IN)], Instant::now(), deadline)? {
        true => Ok(()),
        false => Err(Failure::Overdue(deadline)),
    }
}

/// Waits until a child has ended; kills it after `patience`.
pub(crate) fn end(child: &mut Child, patience: Duration) {
    let due = Instant::now() + patience;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > due {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until one of `files` is ready. Returns false if none is ready at the time `since` plus `deadline`.
///
/// # Errors
/// An interrupt; those of poll(2).
pub(crate) fn ready(
    files: &mut [PollFd<'_>],
    since: Instant,
    deadline: Duration,
) -> Result<bool, Failure> {
    loop {
        let left = deadline.saturating_sub(since.elapsed());
        let timeout = Timespec::try_from(left).map_err(|_| Failure::Overdue(deadline))?;
        match poll(files, Some(&timeout)) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) if interrupt::came() => return Err(Failure::Interrupted),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::Wait(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn reads_what_is_said() {
        assert_eq!(read(&mut sh("echo 1; echo 2"), LONG).expect("sh"), "1\n2\n");
        assert!(read(&mut sh("sleep 30"), Duration::from_millis(20)).is_err());
    }

    /// Checks that the CPU time from wait4(2) equals the scheduler's (schedstat), and includes that of children.
    #[test]
    #[expect(clippy::zombie_processes, reason = "reap is what reaps it")]
    fn cpu_time_is_exact() {
        let loops = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";
        let child = sh(loops).spawn().expect("sh");
        let pid = Pid::from_child(&child);
        ended(pid, LONG).expect("its end");
        let file = format!("/proc/{}/schedstat", pid.as_raw_nonzero());
        let text = std::fs::read_to_string(file).expect("schedstat of what is not reaped yet");
        let exact = text.split(' ').next().and_then(|time| time.parse().ok()).expect("a number");
        let (_, usage) = reap(pid).expect("wait4");
        let apart = usage.cpu().abs_diff(Duration::from_nanos(exact));
        assert!(apart <= Duration::from_micros(2), "{usage:?} {exact} ns");
        let with_child = run(&mut sh(&format!("/bin/sh -c '{loops}'; :")), LONG).expect("sh");
        assert!(with_child.usage.cpu() > usage.cpu() / 2, "{with_child:?} {usage:?}");
    }

    #[test]
    fn kills_the_whole_group_at_the_deadline() {
        let start = Instant::now();
        let result = run(&mut sh("sleep 30 & sleep 30"), Duration::from_millis(50));
        assert!(matches!(result, Err(Failure::Overdue(_))), "{result:?}");
        assert!(start.elapsed() < LONG);
    }

    #[test]
    fn samples_add_up() {
        let usage = |peak_kib, minor_faults| Usage { peak_kib, minor_faults, ..Usage::default() };
        let one =
            Sample { wall: Duration::from_millis(2), usage: usage(900, 5), ..Sample::default() };
        let two =
            Sample { wall: Duration::from_millis(3), usage: usage(700, 6), ..Sample::default() };
        let sum = one + two;
        assert_eq!(sum.wall, Duration::from_millis(5));
        assert_eq!(sum.usage, usage(900, 11));
    }
}
