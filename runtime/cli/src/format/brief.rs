//! `list` on a terminal: one line per container, no longer than the terminal's width.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::iter;

use container::State;
use serde::Deserialize;
use serde_json::value::RawValue;

const TITLE: [&str; COLUMNS] = ["ID", "PID", "STATUS", "CREATED", "IMAGE", "COMMAND"];
const COLUMNS: usize = 6;
const GAP: usize = 2;
/// The columns to truncate if the terminal is too narrow, in this order, each with its minimum width.
const CUT: [(usize, usize); 3] = [(5, 10), (4, 12), (0, 12)];
/// Annotations that may contain an image's name, defined by dayfly, image-spec, containerd and CRI-O.
const IMAGES: [&str; 4] = [
    "run.dayfly.image",
    "org.opencontainers.image.ref.name",
    "io.kubernetes.cri.image-name",
    "io.kubernetes.cri-o.ImageName",
];

/// The part of a container's process that is displayed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Process {
    args: Vec<String>,
}

/// Returns the name of a container's image, if an annotation has it.
pub fn image(state: &State) -> Option<&String> {
    IMAGES.iter().find_map(|name| state.annotations.get(*name))
}

/// Returns the cells of a container with this process.
fn cells(state: &State, process: Option<Box<RawValue>>) -> [String; COLUMNS] {
    let process = process.and_then(|text| serde_json::from_str::<Process>(text.get()).ok());
    [
        state.id.clone(),
        state.pid.to_string(),
        super::list::status(state),
        created(&state.created),
        image(state).cloned().unwrap_or_default(),
        process.unwrap_or_default().args.join(" "),
    ]
    .map(|cell| cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

/// Converts a time in RFC 3339 to `2026-11-21 07:34:19`.
fn created(time: &str) -> String {
    let seconds = time.split(['.', 'Z']).next().unwrap_or(time);
    seconds.replace('T', " ")
}

/// Returns the table of `states`, for which `process` reads the container's process. Lines are at most `width` characters
/// long, unless the minimum widths of the columns need more.
pub fn table(
    states: &[State],
    process: impl Fn(&State) -> Option<Box<RawValue>>,
    width: usize,
) -> String {
    let cells = states.iter().map(|state| cells(state, process(state)));
    let rows: Vec<_> = iter::once(TITLE.map(String::from)).chain(cells).collect();
    let mut widths = [0; COLUMNS];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let all: usize = widths.iter().sum::<usize>() + GAP * (COLUMNS - 1);
    let mut excess = all.saturating_sub(width);
    for (column, least) in CUT {
        if let Some(width) = widths.get_mut(column) {
            let cut = excess.min(width.saturating_sub(least));
            *width -= cut;
            excess -= cut;
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(line, "{:<1$}", fit(cell, *width), width + GAP);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Truncates a text that is longer than `width` characters.
fn fit(cell: &str, width: usize) -> String {
    match cell.chars().count() > width {
        true => cell.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => cell.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::list::tests::example;

    #[test]
    fn fits_the_terminal() {
        let mut long = example("a-container-with-quite-a-long-name-0123456789");
        long.annotations.insert(IMAGES[0].into(), "docker.io/library/alpine:latest".into());
        let states = [example("web"), long];
        let process = r#"{"args":["sh","-c","while true; do\n sleep 1; done"]}"#;
        let process = |_: &State| RawValue::from_string(process.into()).ok();
        for width in [80, 100] {
            let text = table(&states, process, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        assert_eq!(
            table(&states[..1], process, 90),
            "\
ID   PID   STATUS   CREATED              IMAGE  COMMAND
web  4242  running  2026-11-21 07:34:19         sh -c while true; do? sleep 1; done
"
        );
        assert_eq!(
            table(&states, process, 80).lines().last().unwrap(),
            "a-container-with-…  4242  running  2026-11-21 07:34:19  docker.io/l…  sh -c whi…"
        );
        assert!(table(&states[..1], |_| None, 1).contains("\nweb  4242"));
    }
}
