//! Executes the experiment of a part as a separate process.

use super::kept::{Kept, PLACE, replace};
use super::paper::Experiment;
use crate::harness::*;
use crate::{circumstances, runtime};
use host::measure::idle;
use std::process::ExitStatus;

/// The variable that marks an experiment as part of a report.
pub const PART: &str = "DAYFLY_BENCH_PART";

/// The number of bytes of an experiment's error output that are kept.
const COMPLAINT: usize = 600;

/// Makes this process end when the report that started it ends, even if the report is killed by SIGKILL.
pub fn end_with_the_report() {
    if std::env::var_os(PART).is_some() {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    }
}

/// Executes the experiment of a part. The experiment's output is the part's result.
///
/// # Errors
/// An interrupt, which is forwarded to the experiment: the experiment has cleaned up before this function returns. A
/// failed experiment is not an error, but a result.
pub(super) fn part(
    directory: &Path,
    name: &str,
    experiment: &Experiment,
    command: Vec<String>,
    about: u64,
) -> Result<Kept, Error> {
    let picture = directory.join(PLACE).join(name).with_extension("svg");
    let _ = fs::remove_file(&picture);
    let captured = || process::captured().map_err(Error::at("make", Path::new("memfd")));
    let ((text, stdout), (complaint, stderr)) = (captured()?, captured()?);
    let mut process = Command::new(program(experiment)?);
    let words = command.iter().skip(usize::from(experiment.is_bench()));
    // The picture's file is in the same directory as the result.
    let words = words.map(|word| {
        if *word == format!("{name}.svg") { picture.display().to_string() } else { word.clone() }
    });
    process.args(words).args(experiment.as_json()).env(PART, "1");
    process.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    settle();
    let (begin, date) = (Instant::now(), circumstances::date(SystemTime::now()));
    let child = process.spawn().map_err(Error::at("execute", Path::new(process.get_program())))?;
    let status = wait(child, name, about, begin);
    if interrupt::came() {
        let _ = fs::remove_file(&picture);
        return Err(Error::Interrupted);
    }
    let status = status?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut kept = Kept { command, date, seconds, ..Kept::default() };
    // `dayfly host` exits with a verdict about the host, so its exit status does not mean failure.
    match serde_json::from_str(&process::content(&text)) {
        Ok(result) if status.success() || !experiment.is_bench() => kept.result = result,
        _ => kept.failure = Some(reason(&process::content(&complaint), status)),
    }
    if let Ok(text) = fs::read_to_string(&picture) {
        // The picture is replaced atomically, so that an interrupt here leaves no partial file.
        replace(&picture, &text)?;
    }
    Ok(kept)
}

/// Waits until the host has done what the part before has left to it, but not for long.
fn settle() {
    const LONGEST: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    let second = Duration::from_secs(1);
    while begin.elapsed() < LONGEST && !interrupt::came() && idle::share(second) < idle::ENOUGH {}
}

/// Returns the program that executes a command: this program for its own experiments, dayfly for other commands.
fn program(experiment: &Experiment) -> Result<PathBuf, Error> {
    if experiment.is_bench() {
        // This works even if the program's file has been replaced meanwhile.
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    runtime::dayfly()
}

/// Waits for the end of the experiment, shows its progress, and forwards signals to it.
fn wait(mut child: Child, name: &str, about: u64, begin: Instant) -> Result<ExitStatus, Error> {
    let failed = |errno| Error::errno("wait for", Path::new(name))(errno);
    let pid = Pid::from_child(&child);
    let mut progress = Progress::new();
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
    let mut told = false;
    loop {
        let mut files = [PollFd::new(&handle, PollFlags::IN)];
        match process::ready(&mut files, Instant::now(), Duration::from_secs(1)) {
            Ok(true) => break,
            Ok(false) | Err(Failure::Interrupted) => {}
            Err(failure) => bail!("wait for {name}: {failure}"),
        }
        if interrupt::came() && !told {
            told = true;
            let _ = kill_process(pid, Signal::TERM);
        }
        let passed = begin.elapsed().as_secs() as usize;
        progress.tell(&format!("{name}, seconds"), passed, about as usize);
    }
    child.wait().map_err(Error::at("wait for", Path::new(name)))
}

/// Returns the reason why an experiment has no result, from its own output.
fn reason(complaint: &str, status: ExitStatus) -> String {
    let complaint = complaint.trim();
    if complaint.is_empty() {
        return status.to_string();
    }
    let from = complaint.char_indices().rev().nth(COMPLAINT).map_or(0, |(at, _)| at);
    complaint.get(from..).unwrap_or(complaint).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn the_end_of_a_complaint_counts() {
        let status = ExitStatus::from_raw(1 << 8);
        assert_eq!(reason("", status), "exit status: 1");
        assert_eq!(reason("dayfly-bench: needs root\n", status), "dayfly-bench: needs root");
        let long = format!("{}the reason", "ü".repeat(2000));
        let short = reason(&long, status);
        assert!(short.ends_with("the reason") && short.chars().count() == COMPLAINT + 1);
    }
}
