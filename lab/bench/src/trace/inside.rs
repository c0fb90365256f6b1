//! dayfly's own trace of a command, extended by times that only the command's caller can measure.

use super::outside::{Held, Observed};
use crate::base::*;
use crate::process::{self, Failure, Sample};
use trace::{PARENT, Phase, Span, Timeline, now};

/// Runs `command`, which writes its time line to `file` as JSON lines, to its end.
///
/// # Errors
/// Any end except exit status 0; no time line, for example because the dayfly does not support `--trace`.
pub fn run(
    command: &mut Command,
    file: &Path,
    deadline: Duration,
) -> Result<(Sample, Observed), Failure> {
    let before = now();
    let sample = process::run(command, deadline)?;
    let after = now();
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Left(format!("no trace in {}: {error}", file.display())))?;
    let _ = fs::remove_file(file);
    let mut timeline = Timeline::from_lines(&text)
        .map_err(|error| Failure::Left(format!("{}: {error}", file.display())))?;
    surround(&mut timeline, before, after);
    Ok((sample, Observed { timeline, held: Held::default() }))
}

/// Adds the times that the command can't trace itself: the time from before the spawn until the
/// process exists, and the time from the command's last event until its caller notices its exit.
fn surround(timeline: &mut Timeline, before: u64, after: u64) {
    let Some(host) = timeline.rows.first_mut().filter(|row| row.name == PARENT) else { return };
    let span = |name: &str, object: &str, phase, start, end| Span {
        phase,
        name: name.to_owned(),
        object: object.to_owned(),
        start,
        end,
        ..Span::default()
    };
    if before < host.start {
        host.spans.insert(0, span("spawn", "", Phase::Bootstrap, before, host.start));
        host.start = before;
    }
    if after > host.end {
        // `create` and `start` leave a running process behind, so their own exit counts as a part of the bootstrap. The
        // exit of any other command counts as shutdown.
        let begins = timeline.command.ends_with(" create") || timeline.command.ends_with(" start");
        let phase = if begins { Phase::Bootstrap } else { Phase::Shutdown };
        host.spans.push(span("exit", "and write this trace", phase, host.end, after));
        host.end = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Account, Row};

    fn timeline(command: &str) -> Timeline {
        let host = Row { name: PARENT.to_owned(), start: 100, end: 200, ..Row::default() };
        Timeline { command: command.to_owned(), rows: vec![host], ..Timeline::default() }
    }

    #[test]
    fn the_caller_sees_more() {
        for (command, phase) in
            [("dayfly run", Phase::Shutdown), ("dayfly create", Phase::Bootstrap)]
        {
            let mut timeline = timeline(command);
            surround(&mut timeline, 90, 215);
            let host = &timeline.rows[0];
            assert_eq!((host.start, host.end), (90, 215));
            let [spawn, exit] = &host.spans[..] else { panic!("{host:?}") };
            assert_eq!((spawn.name.as_str(), exit.name.as_str()), ("spawn", "exit"));
            assert_eq!(exit.phase, phase, "{command}");
            assert_eq!(Account::of(host).own, [10, 15]);
        }
    }
}
