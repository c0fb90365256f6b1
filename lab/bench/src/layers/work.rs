//! The mount work of one container: what it takes to mount its layers and to take these mounts away again.
//!
//! dayfly tells it in its trace; for other runtimes, the harness does this work and times it. Mount points are
//! directories: on a disk, making and removing them costs more than the mounts, so both are measured.

use super::{Case, Place};
use crate::harness::*;
use trace::{PARENT, Timeline};

/// The steps of dayfly's trace that mount layers, and take the mounts away.
const STEPS: [&str; 7] = [
    "prepare layers",
    "map layers",
    "open layers",
    "make upper",
    "assemble rootfs",
    "detach layers",
    "attach root",
];

/// The mount work of one container of a case.
#[derive(Debug, Serialize)]
pub(crate) struct Work {
    #[serde(flatten)]
    pub(crate) case: Case,
    pub(crate) place: Place,
    /// The time for each container, in microseconds.
    pub(crate) times_us: Vec<f64>,
}

/// Runs `count` containers of every case one after the other, in turns, and times their mount work.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(super) fn measure(
    stand: &Stand,
    place: Place,
    (cases, racers): (&[Case], &[Entrant]),
    count: usize,
) -> Result<Vec<Work>, Error> {
    let file = stand.directory.join("trace.jsonl");
    let traced: Vec<Entrant> = racers
        .iter()
        .map(|racer| {
            let mut traced = racer.called(racer.name.clone());
            if racer.image.is_none() {
                traced.start_options.extend(["--trace".to_owned(), file.display().to_string()]);
            }
            traced
        })
        .collect();
    let rounds = Rounds { timed: count, warm_up: 1, ..Rounds::default() };
    let times = in_turns(&traced, rounds, &format!("mount work, {}", place.name()), |at| {
        let container = Container::new(stand, &traced[at], &[])?;
        let around = container.run_and_tell()?.1;
        if traced[at].image.is_some() {
            return Ok(around.as_secs_f64() * 1e6);
        }
        let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
        let line = Timeline::from_lines(&text).map_err(|error| unfit!("{error}"))?;
        Ok(steps_us(&line))
    })?;
    let _ = fs::remove_file(&file);
    let works = cases.iter().zip(times).filter(|(_, times)| !times.is_empty());
    Ok(works.map(|(case, times_us)| Work { case: case.clone(), place, times_us }).collect())
}

fn steps_us(line: &Timeline) -> f64 {
    let spans = line.rows.iter().filter(|row| row.name == PARENT).flat_map(|row| &row.spans);
    let steps = spans.filter(|span| STEPS.contains(&span.name.as_str()));
    steps.map(|span| (span.end - span.start) as f64 / 1e3).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Row, Span};

    #[test]
    fn only_steps_of_layers_count() {
        let span =
            |name: &str, start, end| Span { name: name.to_owned(), start, end, ..Span::default() };
        let spans = vec![span("map layers", 0, 3000), span("make user namespace", 3000, 9000)];
        let parent = Row { name: PARENT.to_owned(), spans, ..Row::default() };
        let init = Row { spans: vec![span("map layers", 0, 1)], ..Row::default() };
        let line = Timeline { rows: vec![parent, init], ..Timeline::default() };
        assert_eq!(steps_us(&line), 3.0);
    }
}
