//! Reads a page's JSON, so that the page can be made again without measuring.
//!
//! The figures, commands and circumstances come from the JSON, except those of other machines that are in the output's
//! directory `guest`. The published figures and all texts come from this program, and pictures of published figures are
//! drawn again. The experiments' own pictures are copied from the files in the JSON's directory, because the JSON does
//! not contain their samples.

use super::kept::Kept;
use super::page::{Measured, Page, Section, State};
use super::paper::Way;
use super::picture;
use super::row::Row;
use super::{Place, parts};
use crate::harness::*;

#[derive(Deserialize)]
struct Written {
    host: Circumstances,
    sections: Vec<Old>,
}

#[derive(Deserialize)]
struct Old {
    part: String,
    #[serde(flatten)]
    measured: Measured,
}

/// Reads a page, to be written to the directory `output`.
///
/// # Errors
/// A file that can't be read; figures without a matching line on this program's page.
pub(super) fn read(file: &Path, output: &Path) -> Result<Page, Error> {
    let text = fs::read_to_string(file).map_err(Error::at("read", file))?;
    let unfit = |reason: String| unfit!("{}: {reason}", file.display());
    let mut written: Written =
        serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut sections = Vec::new();
    for place in parts() {
        let part = place.1;
        let at = written.sections.iter().position(|old| old.part == part.name);
        let old = at.map(|at| written.sections.swap_remove(at).measured);
        let is_given = match &part.way {
            Way::Guest(guest) => Kept::of_guest(output, &guest.file).is_some(),
            Way::Experiment(_) | Way::Nothing(_) => false,
        };
        let section = match old {
            _ if is_given => Section::of(output, place, &written.host)?,
            Some(old) => section(place, old, directory, &written.host).map_err(&unfit)?,
            None => Section::new(place, &written.host, None, None)?,
        };
        sections.push(section);
    }
    match written.sections.first() {
        Some(old) => Err(unfit(format!("no part {}: written by another version", old.part))),
        None => Ok(Page::new(written.host, sections)),
    }
}

fn section(
    place: Place,
    mut old: Measured,
    directory: &Path,
    host: &Circumstances,
) -> Result<Section, String> {
    let part = place.1;
    let is_own = part.draws() && (part.own || picture::shown(&old.lines, part).is_empty());
    let own = match old.pictures.first().filter(|_| is_own) {
        Some(name) => {
            let file = directory.join(name);
            let text = fs::read_to_string(&file);
            Some(text.map_err(|error| format!("{}: {error}", file.display()))?)
        }
        None => None,
    };
    let cells = part.lines.iter().map(|line| Row::cells(&mut old.lines, line)).collect();
    if let Some(row) = old.lines.iter().find(|row| !row.measured.is_empty()) {
        let what = &row.what;
        return Err(format!("{}: no line {what:?}: written by another version", part.name));
    }
    let is_nothing = matches!(part.way, Way::Nothing(_));
    if let Some(why) = part.lacking(host)
        && (is_nothing || matches!(old.state, State::NotHere(_)))
    {
        old.state = State::NotHere(why);
    }
    Section::shown(place, old, cells, own).map_err(|error| error.to_string())
}
