//! The page: the section of each part, and its three formats.

mod html;
mod markdown;

use super::kept::{self, Kept, replace};
use super::paper::{Line, Paper, Part, Published, Way};
use super::picture;
use super::row::Row;
use super::take::Cell;
use crate::Error;
use crate::circumstances::Circumstances;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The section of a part.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    pub title: &'static str,
    pub by: &'static str,
    pub on: &'static str,
    pub part: &'static str,
    pub place: &'static str,
    pub about: &'static str,
    /// The command that reproduces the part; `None` if nothing is measured for the part.
    pub command: Option<String>,
    pub state: State,
    pub lines: Vec<Row>,
    /// The lines without any figure, because this command or this host does not measure them.
    pub unmeasured: Vec<&'static str>,
    /// A sentence about results that this host cannot reproduce, and about the results that the
    /// page shows instead.
    pub instead: Option<String>,
    /// The date and time of the measurement; empty if not recorded.
    pub date: String,
    /// The runtimes and the circumstances: `record` in the experiment's output.
    pub record: Value,
    /// The excluded entrants, and the reasons.
    pub failures: Value,
    /// The names of the picture files, in the directory of the page.
    pub pictures: Vec<String>,
    /// The contents of the picture files (SVG).
    #[serde(skip)]
    pub drawn: Vec<String>,
}

/// The state of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// The part was finished in this number of seconds.
    Done(f64),
    /// The part has no result, for this reason.
    Failed(String),
    /// The part was not executed yet.
    Open,
    /// The part cannot be executed on this host, for this reason.
    NotHere(String),
}

/// The measured figures and pictures of a part.
#[derive(Debug)]
pub(super) struct Measured {
    pub state: State,
    pub command: Option<String>,
    /// The figures of each line.
    pub cells: Vec<Vec<Cell>>,
    pub instead: Option<String>,
    pub date: String,
    pub record: Value,
    pub failures: Value,
    /// The picture that the experiment has drawn.
    pub own: Option<String>,
}

/// The content of the page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    pub host: Circumstances,
    pub sections: Vec<Section>,
}

impl Section {
    /// Builds the section from the part's kept result and the published figures.
    pub(super) fn of(
        directory: &Path,
        paper: &'static Paper,
        part: &'static Part,
        host: &Circumstances,
    ) -> Result<Self, Error> {
        let (kept, own) = match &part.way {
            Way::Command(_) => {
                (Kept::read(directory, part.name), kept::picture(directory, part.name))
            }
            Way::Guest(guest) => {
                (Kept::of_guest(directory, guest.file), kept::guest_picture(directory, guest.file))
            }
            Way::Nothing(_) => (None, None),
        };
        Self::new(paper, part, host, kept, own)
    }

    pub(super) fn new(
        paper: &'static Paper,
        part: &'static Part,
        host: &Circumstances,
        kept: Option<Kept>,
        own: Option<String>,
    ) -> Result<Self, Error> {
        let state = match (&part.way, &kept) {
            (Way::Nothing(why), _) => State::NotHere((*why).to_owned()),
            (Way::Guest(guest), None) => State::NotHere(guest.missing()),
            (_, None) => State::Open,
            (_, Some(kept)) => match &kept.failure {
                Some(reason) => State::Failed(reason.clone()),
                None => State::Done(kept.seconds),
            },
        };
        let kept = kept.unwrap_or_default();
        let words = kept.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let command = match &part.way {
            Way::Guest(guest) if matches!(state, State::Done(_)) => Some(guest.line()),
            _ => (!words.is_empty()).then(|| format!("dayfly {words}")),
        };
        let measured = Measured {
            state,
            command,
            cells: part.lines.iter().map(|line| line.cells(&kept.result)).collect(),
            instead: (part.instead)(host),
            date: kept.date,
            record: kept.result["record"].clone(),
            failures: kept.result["failures"].clone(),
            own,
        };
        Self::from_measured(paper, part, measured)
    }

    pub(super) fn from_measured(
        paper: &'static Paper,
        part: &'static Part,
        of: Measured,
    ) -> Result<Self, Error> {
        let is_done = matches!(of.state, State::Done(_));
        let rows = part.lines.iter().zip(of.cells).flat_map(|(line, cells)| Row::of(line, cells));
        // A quick report does not measure all lines.
        let is_empty = |row: &Row| row.published.is_empty() && row.measured.is_empty();
        let (empty, lines): (Vec<Row>, Vec<Row>) = rows.partition(|row| is_done && is_empty(row));
        let mut drawn: Vec<String> = Vec::new();
        if is_done {
            drawn.extend(picture::beside(&lines, part.name)?);
            drawn.extend(of.own);
        }
        let names = (1..=drawn.len()).map(|number| format!("{}-{number}.svg", part.name));
        let is_missing = |line: &&Line| empty.iter().any(|row| row.what == line.what);
        Ok(Self {
            title: paper.title,
            by: paper.by,
            on: paper.on,
            part: part.name,
            place: part.place,
            about: part.about,
            command: of.command,
            state: of.state,
            lines,
            unmeasured: part.lines.iter().filter(is_missing).map(|line| line.what).collect(),
            instead: of.instead,
            date: of.date,
            record: of.record,
            failures: of.failures,
            pictures: names.collect(),
            drawn,
        })
    }

    /// Returns the text in the table of contents for a part that is not done.
    pub(super) fn mark(&self) -> &'static str {
        match self.state {
            State::Done(_) => "",
            State::Failed(_) => " (failed)",
            State::Open => " (not yet)",
            State::NotHere(_) => " (not here)",
        }
    }

    /// Returns the notes below the table: results that this host cannot reproduce, lines that are
    /// not measured, and excluded entrants.
    pub(super) fn notes(&self) -> Vec<String> {
        let missing = (!self.unmeasured.is_empty()).then(|| {
            format!("Not measured by this command on this host: {}.", self.unmeasured.join("; "))
        });
        self.instead.iter().cloned().chain(missing).chain(self.out()).collect()
    }

    /// Returns whether the row has no measured figure although its part is done.
    pub(super) fn lacks(&self, row: &Row) -> bool {
        row.measured.is_empty() && matches!(self.state, State::Done(_))
    }

    /// Returns whether any row has a published figure.
    pub(super) fn has_published(&self) -> bool {
        self.lines.iter().any(|row| !row.published.is_empty())
    }

    /// Returns the names of all measured entrants, in order of appearance: the columns.
    pub(super) fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for cell in self.lines.iter().flat_map(|row| &row.measured) {
            if !columns.contains(&cell.name) {
                columns.push(cell.name.clone());
            }
        }
        columns
    }

    /// Returns the date, the versions, the load and the duration of the measurement, as far as recorded; `None` if the
    /// part is not done.
    pub(super) fn record(&self) -> Option<String> {
        let State::Done(seconds) = self.state else { return None };
        let text = |key: &str| self.record[key].as_str();
        let versions = self.record["runtimes"].as_array().into_iter().flatten();
        let versions: Vec<String> = versions
            .filter_map(|runtime| {
                Some(format!("{}: {}", runtime["name"].as_str()?, runtime["version"].as_str()?))
            })
            .collect();
        let circumstances = match (text("date"), text("load"), text("cgroups"), text("container")) {
            (Some(date), Some(load), Some(view), Some(kind)) => {
                format!("{date}, load {load}, cgroups {view}, {kind}")
            }
            // `dayfly host` records no circumstances.
            _ => self.date.clone(),
        };
        // The time in a virtual machine is not recorded.
        let took = (seconds > 0.0).then(|| format!("It took {seconds:.0} s."));
        // An experiment on the host itself has no runtimes.
        let parts = [circumstances, versions.join("; "), took.unwrap_or_default()];
        Some(parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(". "))
    }

    /// Returns a sentence about each excluded entrant.
    pub(super) fn out(&self) -> Vec<String> {
        let all = self.failures.as_array().into_iter().flatten();
        all.filter_map(|out| {
            Some(format!("{} is out: {}", out["runtime"].as_str()?, out["reason"].as_str()?))
        })
        .collect()
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=,:+%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns the facts about the host, with their names.
pub(super) fn facts(host: &Circumstances) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("date", host.date.clone()),
        ("kernel", host.kernel.clone()),
        ("CPUs", format!("{} × {}", host.cpus, host.cpu)),
        ("memory", format!("{} MiB, nodes: {}", host.memory_mib, host.nodes)),
        ("cgroups", format!("{} ({})", host.cgroups.name(), host.cgroup_mount)),
        ("mounts", host.mounts.to_string()),
        ("RCU", format!("rcu_expedited {}, rcu_normal {}", host.rcu_expedited, host.rcu_normal)),
        ("frequency governor", host.governor.clone()),
        ("load", host.load.clone()),
    ];
    facts.extend(host.runtimes.iter().map(|runtime| {
        let hash = runtime.sha256.get(..12).unwrap_or_default();
        ("runtime", format!("{}: {}, sha256 {hash}…", runtime.name, runtime.version))
    }));
    facts
}

impl Page {
    /// Writes all formats, each atomically.
    pub(super) fn write(&self, directory: &Path) -> Result<(), Error> {
        for section in &self.sections {
            for (name, text) in section.pictures.iter().zip(&section.drawn) {
                replace(&directory.join(name), text)?;
            }
            // Removes pictures that an earlier run left, if that run drew more of them.
            for number in section.pictures.len() + 1..=2 {
                let _ = fs::remove_file(directory.join(format!("{}-{number}.svg", section.part)));
            }
        }
        replace(&directory.join("index.html"), &html::page(self))?;
        replace(&directory.join("report.md"), &markdown::page(self))?;
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Unfit(format!("JSON: {error}")))?;
        replace(&directory.join("report.json"), &format!("{json}\n"))
    }

    /// Returns the sections of each paper.
    pub(super) fn papers(&self) -> impl Iterator<Item = &[Section]> {
        self.sections.chunk_by(|one, other| one.title == other.title)
    }

    /// Returns the number of finished parts, and the number of parts that can be run on this host.
    pub(super) fn done(&self) -> [usize; 2] {
        let done = self.sections.iter().filter(|it| matches!(it.state, State::Done(_)));
        let can = self.sections.iter().filter(|it| !matches!(it.state, State::NotHere(_)));
        [done.count(), can.count()]
    }
}

/// The explanation of the figures, in every format.
pub(super) const READING: &str = "Measured figures are medians, or means where the publication has means, with their 95 % \
    intervals in brackets; runtimes took turns, round by round. Published figures are of other machines and other \
    times: they are there to compare proportions with, not milliseconds. In pictures they are grey.";

/// The text in place of a figure that is missing.
pub(super) const MISSING: &str = "not measured by this command";
