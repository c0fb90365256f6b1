//! The page: the section of each part, and its three formats. The HTML is made from the Markdown.

mod html;

use super::Place;
use super::first::{self, First};
use super::kept::{self, GUEST, Kept, PLACE, replace};
use super::line::Cell;
use super::paper::{Paper, Part, Way};
use super::picture;
use super::row::Row;
use super::verdict::{Kind, Verdict};
use crate::harness::*;

/// The section of a part.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    #[serde(flatten)]
    pub paper: &'static Paper,
    #[serde(flatten)]
    pub part: &'static Part,
    /// The verdict on the part, if something is published.
    pub verdict: Option<Verdict>,
    #[serde(flatten)]
    pub measured: Measured,
}

/// The measured figures and pictures of a part.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    /// The command that reproduces the part; `None` if nothing is measured for the part.
    pub command: Option<String>,
    pub state: State,
    pub lines: Vec<Row>,
    /// The lines without any figure, because this command or this host does not measure them.
    pub unmeasured: Vec<String>,
    /// A sentence about results that this host cannot reproduce, and about the results that the
    /// page shows instead.
    pub instead: Option<String>,
    /// The date and time of the measurement; empty if not recorded.
    #[serde(default)]
    pub date: String,
    /// The runtimes and the circumstances: `record` in the experiment's output.
    pub record: Value,
    /// The excluded entrants, and the reasons.
    pub failures: Value,
    /// The name of the picture's file in the directory of the page, if there is a picture.
    pub pictures: Vec<String>,
    /// The content of that file (SVG).
    #[serde(skip)]
    pub drawn: Option<String>,
}

/// The state of a part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// The part was finished in this number of seconds.
    Done(f64),
    /// The part has no result, for this reason.
    Failed(String),
    /// The part was not executed yet.
    #[default]
    Open,
    /// The part cannot be executed on this host, for this reason.
    NotHere(String),
}

/// The content of the page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    pub host: Circumstances,
    pub sections: Vec<Section>,
}

impl Section {
    /// Builds the section from the part's kept result and the published figures.
    pub(super) fn of(directory: &Path, at: Place, host: &Circumstances) -> Result<Self, Error> {
        let (kept, place, name) = match &at.1.way {
            Way::Guest(guest) => (Kept::of_guest(directory, &guest.file), GUEST, &guest.file),
            _ => (Kept::read(directory, &at.1.name), PLACE, &at.1.name),
        };
        Self::new(at, host, kept, kept::picture(directory, place, name))
    }

    pub(super) fn new(
        at: Place,
        host: &Circumstances,
        kept: Option<Kept>,
        own: Option<String>,
    ) -> Result<Self, Error> {
        let part = at.1;
        let state = match (part.lacking(host), &kept) {
            (Some(why), None) => State::NotHere(why),
            (None, None) => State::Open,
            (_, Some(Kept { failure: Some(reason), .. })) => State::Failed(reason.clone()),
            (_, Some(kept)) => State::Done(kept.seconds),
        };
        let kept = kept.unwrap_or_default();
        let words = kept.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let command = match &part.way {
            Way::Guest(guest) if matches!(state, State::Done(_)) => Some(guest.line()),
            _ => (!words.is_empty()).then(|| format!("dayfly {words}")),
        };
        let measured = Measured {
            command,
            state,
            instead: part.instead(host),
            date: kept.date,
            record: kept.result["record"].clone(),
            failures: kept.result["failures"].clone(),
            ..Measured::default()
        };
        let cells = part.lines.iter().map(|line| line.cells(&kept.result)).collect();
        Self::shown(at, measured, cells, own)
    }

    /// Completes what was measured by the lines and the pictures. `cells` are the figures of each line, and `own` is the
    /// picture that the experiment has drawn.
    pub(super) fn shown(
        (paper, part): Place,
        of: Measured,
        cells: Vec<Vec<Cell>>,
        own: Option<String>,
    ) -> Result<Self, Error> {
        let is_done = matches!(of.state, State::Done(_));
        let rows = part.lines.iter().zip(cells).flat_map(|(line, cells)| Row::of(line, cells));
        // A quick report does not measure all lines.
        let is_empty = |row: &Row| row.published.is_empty() && row.measured.is_empty();
        let (empty, lines): (Vec<Row>, Vec<Row>) = rows.partition(|row| is_done && is_empty(row));
        // One picture is enough: the experiment's own one if the part prefers it or there are no bars.
        let drawn = match is_done {
            true if part.own && own.is_some() => own,
            true => picture::bars_of(&lines, part)?.or(own),
            false => None,
        };
        let pictures = drawn.iter().map(|_| format!("{}-1.svg", part.name)).collect();
        let unmeasured = empty.into_iter().map(|row| row.what).collect();
        let measured = Measured { lines, unmeasured, pictures, drawn, ..of };
        Ok(Self { paper, part, verdict: None, measured })
    }

    /// Returns the text in the table of contents: the verdict, or why there is none.
    fn mark(&self) -> String {
        let text = match (&self.verdict, &self.measured.state) {
            (Some(verdict), _) => verdict.is.words(),
            (None, State::Done(_)) => return String::new(),
            (None, State::Failed(_)) => "failed",
            (None, State::Open) => "not yet",
            (None, State::NotHere(_)) => "not here",
        };
        format!(" ({text})")
    }

    /// Returns the notes below the table: results that this host cannot reproduce, lines that are
    /// not measured, and excluded entrants.
    fn notes(&self) -> Vec<String> {
        let Measured { instead, unmeasured, failures, .. } = &self.measured;
        let missing = (!unmeasured.is_empty()).then(|| {
            format!("Not measured by this command on this host: {}.", unmeasured.join("; "))
        });
        let command = self.measured.command.as_deref().unwrap_or_default();
        let mut about_command = Vec::new();
        if let (Way::Experiment(of), State::Done(_)) = (&self.part.way, &self.measured.state) {
            // An experiment may have changed since a report was made.
            if !command.starts_with(&format!("dayfly {}", of.command)) {
                about_command.push(
                    "The experiment has been changed since: these are figures of the command below.",
                );
            }
            if !command.contains(&of.limits) {
                about_command
                    .push("Without limits: the cgroups of this view have no controllers for them.");
            }
        }
        let about_command = about_command.into_iter().map(str::to_owned);
        let out = failures.as_array().into_iter().flatten().filter_map(|out| {
            Some(format!("{} is out: {}", out["runtime"].as_str()?, out["reason"].as_str()?))
        });
        instead.iter().cloned().chain(about_command).chain(missing).chain(out).collect()
    }

    /// Returns the cgroups of the measurement in words: their version, and who makes them.
    fn groups(&self) -> Option<String> {
        let Value::Object(record) = &self.measured.record else { return None };
        let text = |key: &str| record.get(key).and_then(Value::as_str);
        let driver =
            if text("container")?.contains("scopes of systemd") { "systemd" } else { "cgroupfs" };
        Some(format!("cgroup {}, {driver} driver", text("cgroups")?))
    }

    /// Returns the date, the versions, the load and the duration of the measurement, as far as recorded; `None` if the
    /// part is not done.
    fn record(&self) -> Option<String> {
        let Measured { state: State::Done(seconds), record, date, .. } = &self.measured else {
            return None;
        };
        let text = |key: &str| record[key].as_str();
        let versions = record["runtimes"].as_array().into_iter().flatten();
        let versions: Vec<String> = versions
            .filter_map(|runtime| {
                Some(format!("{}: {}", runtime["name"].as_str()?, runtime["version"].as_str()?))
            })
            .collect();
        let circumstances = match (text("date"), text("load"), text("cgroups"), text("container")) {
            (Some(date), Some(load), Some(view), Some(kind)) => {
                let controllers = text("controllers").filter(|names| !names.is_empty());
                let controllers = controllers.map_or_else(String::new, |it| format!(" ({it})"));
                format!("{date}, load {load}, cgroups {view}{controllers}, {kind}")
            }
            // `dayfly host` records no circumstances.
            _ => date.clone(),
        };
        // The time in a virtual machine is not recorded.
        let took = (*seconds > 0.0).then(|| format!("It took {seconds:.0} s."));
        // An experiment on the host itself has no runtimes.
        let parts = [circumstances, versions.join("; "), took.unwrap_or_default()];
        Some(parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(". "))
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

impl Page {
    /// Returns the page of these sections, with the verdicts that follow from their figures.
    pub(super) fn new(host: Circumstances, mut sections: Vec<Section>) -> Self {
        let judge = |section: &Section| {
            // What failed or is not measured yet has no verdict.
            let is_open = matches!(section.measured.state, State::Failed(_) | State::Open);
            let figures = |part: Option<&str>, what: &str, name: &str| {
                let part = part.unwrap_or(&section.part.name);
                let of = sections.iter().find(|of| of.part.name == part)?;
                of.measured.lines.iter().find(|row| row.what == what)?.cell(name).cloned()
            };
            if matches!(section.measured.state, State::NotHere(_)) && !section.part.rules.is_empty()
            {
                let why = "it was not measured.".to_owned();
                return Some(Verdict { is: Kind::NotHere, why });
            }
            let rules = if is_open { &[] } else { section.part.rules.as_slice() };
            Verdict::of(rules, &host, &figures)
        };
        let verdicts: Vec<_> = sections.iter().map(judge).collect();
        for (section, verdict) in sections.iter_mut().zip(verdicts) {
            section.verdict = verdict;
        }
        Self { host, sections }
    }

    /// Writes all formats, each atomically.
    pub(super) fn write(&self, directory: &Path) -> Result<(), Error> {
        for Section { part, measured, .. } in &self.sections {
            let file = directory.join(format!("{}-1.svg", part.name));
            match &measured.drawn {
                Some(text) => replace(&file, text)?,
                // An earlier run may have left one.
                None => _ = fs::remove_file(file),
            }
        }
        let first = First::of(|part, what| {
            let section = self.sections.iter().find(|section| section.part.name == part)?;
            let row = section.measured.lines.iter().find(|row| row.what == what)?;
            Some((row, section.groups()))
        })?;
        if !first.sentences.is_empty() {
            replace(&directory.join(first::PICTURE), &first.picture)?;
        }
        let markdown = self.markdown(&first);
        let pictures = |name: &str| {
            let sections = self.sections.iter();
            let mut pictures =
                sections.flat_map(|of| of.measured.pictures.iter().zip(&of.measured.drawn));
            let found = pictures.find(|(of, _)| *of == name).map(|(_, svg)| svg.trim());
            found.or_else(|| (name == first::PICTURE).then(|| first.picture.trim()))
        };
        replace(&directory.join("index.html"), &html::page(&markdown, pictures))?;
        replace(&directory.join("report.md"), &markdown)?;
        let json = serde_json::to_string_pretty(self).map_err(|error| unfit!("JSON: {error}"))?;
        replace(&directory.join("report.json"), &format!("{json}\n"))
    }

    /// Returns the sections of each paper.
    fn papers(&self) -> impl Iterator<Item = &[Section]> {
        self.sections.chunk_by(|one, other| one.paper.title == other.paper.title)
    }

    fn markdown(&self, first: &First) -> String {
        let done = self.sections.iter().filter(|it| matches!(it.measured.state, State::Done(_)));
        let can = self.sections.iter().filter(|it| !matches!(it.measured.state, State::NotHere(_)));
        let runtimes = self.host.runtimes.iter();
        let runtimes = runtimes.map(|it| ("runtime", format!("{}: {}", it.name, it.build())));
        let facts = self.host.facts().into_iter().chain(runtimes);
        let facts = facts.map(|(name, fact)| row([name.to_owned(), fact]));
        let mut blocks = vec![
            "# How fast containers start: dayfly, crun and runc".to_owned(),
            first.sentences.join("\n"),
            self.count(),
            format!("![The other runtimes' figures, as multiples of dayfly's]({})", first::PICTURE),
            "## Contents".to_owned(),
            self.contents(),
            "## Host".to_owned(),
            READING.to_owned(),
            format!("{} of {} experiments are done.", done.count(), can.count()),
            format!("| | |\n|---|---|\n{}", facts.collect::<Vec<_>>().join("\n")),
        ];
        if first.sentences.is_empty() {
            blocks.remove(3);
            blocks.remove(1);
        }
        blocks.retain(|block| !block.is_empty());
        for (sections, number) in self.papers().zip(1..) {
            let Paper { title, by, on, .. } = sections[0].paper;
            blocks.push(format!("<a id=\"paper-{number}\"></a>\n\n## {title}"));
            blocks.push(format!("{by}. Measured on {on}."));
            blocks.extend(sections.iter().flat_map(Section::markdown));
        }
        blocks.join("\n\n") + "\n"
    }

    /// Returns how many parts have each verdict; empty without any.
    fn count(&self) -> String {
        let of = |kind| {
            self.sections.iter().flat_map(|it| &it.verdict).filter(|it| it.is == kind).count()
        };
        let counts = Kind::JUDGING.map(|kind| (of(kind), kind.words()));
        let all = counts.iter().map(|(count, _)| count).sum::<usize>();
        if all == 0 {
            return String::new();
        }
        let counts = counts.map(|(count, words)| format!("{count} {words}")).join(", ");
        format!("Of {all} published results: **{counts}**.")
    }

    fn contents(&self) -> String {
        let mut lines = Vec::new();
        for (sections, number) in self.papers().zip(1..) {
            lines.push(format!("- [{}](#paper-{number})", sections[0].paper.title));
            lines.extend(sections.iter().map(|section| {
                let (name, place) = (&section.part.name, &section.part.place);
                format!("  - [{place}](#{name}){}", section.mark())
            }));
        }
        lines.join("\n")
    }
}

impl Section {
    fn markdown(&self) -> Vec<String> {
        let Self { part: Part { name, place, about, .. }, measured, .. } = self;
        let mut blocks =
            vec![format!("<a id=\"{name}\"></a>\n\n### {place}"), format!("`{name}`: {about}")];
        let verdict = self.verdict.iter();
        blocks.extend(
            verdict
                .map(|Verdict { is, why }| format!("**{}**: {}", capital(is.words()), cell(why))),
        );
        blocks.extend(match &measured.state {
            State::Done(_) => None,
            State::Failed(reason) => Some(format!("> It failed: {}", cell(reason))),
            State::Open => Some(format!("> Not measured yet: `dayfly bench report --only {name}`")),
            State::NotHere(why) => Some(format!("> Not measured here: {}", cell(why))),
        });
        blocks.extend((!measured.lines.is_empty()).then(|| self.table()));
        blocks.extend(self.notes().iter().map(|note| format!("> {}", cell(note))));
        blocks.extend(measured.pictures.iter().map(|picture| format!("![{place}]({picture})")));
        blocks.extend(measured.command.iter().map(|command| format!("    {command}")));
        blocks.extend(self.record());
        blocks
    }

    fn table(&self) -> String {
        let cells = self.measured.lines.iter().flat_map(|row| &row.measured);
        let columns = results::distinct(cells.map(|cell| cell.name.as_str()));
        // Whether any row has a published figure.
        let has_published = self.measured.lines.iter().any(|row| !row.published.is_empty());
        let published = if has_published { [" published |", "---|"] } else { ["", ""] };
        let headings: String = columns.iter().map(|name| format!(" {} |", cell(name))).collect();
        let mut lines = vec![
            format!("| |{}{headings} |", published[0]),
            format!("|---|{}{}---|", published[1], "--:|".repeat(columns.len())),
        ];
        for of in &self.measured.lines {
            let mut cells = vec![of.what.clone()];
            if has_published {
                let texts = of.published.iter().map(|published| match published.of.as_str() {
                    "" => published.text.clone(),
                    of => format!("{}, {of}", published.text),
                });
                cells.push(texts.collect::<Vec<_>>().join("; "));
            }
            if of.measured.is_empty() && matches!(self.measured.state, State::Done(_)) {
                cells.push(MISSING.to_owned());
                lines.push(row(cells) + &" |".repeat(columns.len()));
                continue;
            }
            cells.extend(columns.iter().map(|column| of.texts(column).join(", ")));
            cells.push(if of.measured.is_empty() { String::new() } else { of.unit.clone() });
            lines.push(row(cells));
        }
        lines.join("\n")
    }
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    cells.into_iter().fold("|".to_owned(), |row, text| format!("{row} {} |", cell(&text)))
}

/// Returns a text with a capital first letter.
fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// Escapes text for a table cell: one line without column separators.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The explanation of the figures, in every format.
const READING: &str = "Measured figures are medians, or means where the publication has means, with their 95 % \
    intervals in brackets; runtimes took turns, round by round. Published figures are of other machines and other \
    times: they are there to compare proportions with, not milliseconds. Containers have no limits unless a part says so: \
    with limits, see \"limits\" and \"limits-own-cgroup\". In pictures they are grey.";

/// The text in place of a figure that is missing.
const MISSING: &str = "not measured by this command";
