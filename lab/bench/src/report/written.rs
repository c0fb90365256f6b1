//! Reads a page's JSON, so that the page can be made again without measuring.
//!
//! The figures, commands and circumstances come from the JSON. The published figures and all texts
//! come from this program, and pictures of published figures are drawn again. The experiments' own
//! pictures are copied from the files in the JSON's directory, because the JSON does not contain
//! their samples.

use super::PAPERS;
use super::page::{Measured, Page, Section, State};
use super::paper::{Line, Paper, Part, Way};
use super::take::Cell;
use crate::Error;
use crate::circumstances::Circumstances;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[derive(Deserialize)]
struct Written {
    host: Circumstances,
    sections: Vec<Old>,
}

/// The section of a part.
#[derive(Deserialize)]
struct Old {
    part: String,
    command: Option<String>,
    state: State,
    lines: Vec<OldRow>,
    instead: Option<String>,
    #[serde(default)]
    date: String,
    record: Value,
    failures: Value,
    pictures: Vec<String>,
}

#[derive(Deserialize)]
struct OldRow {
    what: String,
    published: Vec<OldPublished>,
    measured: Vec<Cell>,
}

#[derive(Deserialize)]
struct OldPublished {
    number: Option<f64>,
}

/// Reads a page.
///
/// # Errors
/// A file that can't be read; figures without a matching line on this program's page.
pub(super) fn read(file: &Path) -> Result<Page, Error> {
    let text = fs::read_to_string(file).map_err(Error::at("read", file))?;
    let unfit = |reason: String| Error::Unfit(format!("{}: {reason}", file.display()));
    let mut written: Written =
        serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut sections = Vec::new();
    for paper in PAPERS {
        for part in paper.parts {
            let at = written.sections.iter().position(|old| old.part == part.name);
            let old = at.map(|at| written.sections.swap_remove(at));
            sections.push(section(paper, part, old, directory, &written.host).map_err(&unfit)?);
        }
    }
    match written.sections.first() {
        Some(old) => Err(unfit(format!("no part {}: written by another version", old.part))),
        None => Ok(Page { host: written.host, sections }),
    }
}

fn section(
    paper: &'static Paper,
    part: &'static Part,
    old: Option<Old>,
    directory: &Path,
    host: &Circumstances,
) -> Result<Section, String> {
    let Some(mut old) = old else {
        return Section::new(paper, part, host, None, None).map_err(|error| error.to_string());
    };
    let own = match old.own_picture(part).map(|name| directory.join(name)) {
        Some(file) => {
            let text = fs::read_to_string(&file);
            Some(text.map_err(|error| format!("{}: {error}", file.display()))?)
        }
        None => None,
    };
    let cells = part.lines.iter().map(|line| old.cells(line)).collect();
    if let Some(row) = old.lines.iter().find(|row| !row.measured.is_empty()) {
        let what = &row.what;
        return Err(format!("{}: no line {what:?}: written by another version", part.name));
    }
    let state = match &part.way {
        Way::Nothing(why) => State::NotHere((*why).to_owned()),
        Way::Guest(guest) if matches!(old.state, State::NotHere(_)) => {
            State::NotHere(guest.missing())
        }
        Way::Command(_) | Way::Guest(_) => old.state,
    };
    let measured = Measured {
        state,
        command: old.command,
        cells,
        instead: old.instead,
        date: old.date,
        record: old.record,
        failures: old.failures,
        own,
    };
    Section::from_measured(paper, part, measured).map_err(|error| error.to_string())
}

impl Old {
    /// Returns the name of the picture that the experiment has drawn. In the list of pictures, the picture of published
    /// figures comes first, if there is one.
    fn own_picture(&self, part: &Part) -> Option<&String> {
        let draws = match &part.way {
            Way::Command(command) => command.draws,
            Way::Guest(_) => true,
            Way::Nothing(_) => false,
        };
        let is_compared = |row: &OldRow| {
            !row.measured.is_empty() && row.published.iter().any(|it| it.number.is_some())
        };
        let before = usize::from(self.lines.iter().any(is_compared));
        self.pictures.get(before).filter(|_| draws)
    }

    /// Removes the rows of a line, and returns their figures.
    fn cells(&mut self, line: &Line) -> Vec<Cell> {
        let mut cells = Vec::new();
        self.lines.retain(|row| {
            if row.what == line.what {
                cells.extend(row.measured.iter().cloned());
                return false;
            }
            // If there are many entrants, each entrant has a row of its own, whose text ends with the entrant's name.
            let rest = row.what.strip_prefix(line.what).and_then(|rest| rest.strip_prefix(", "));
            match (rest, row.measured.as_slice()) {
                (Some(name), [cell]) if cell.name == "here" => {
                    cells.push(Cell { name: name.to_owned(), ..cell.clone() });
                    false
                }
                _ => true,
            }
        });
        cells
    }
}
