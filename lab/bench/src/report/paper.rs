//! The content of a paper or article, and the experiments that reproduce it here.

use super::take::{Cell, Take};
use crate::circumstances::Circumstances;
use crate::options::Report;
use serde::Serialize;
use std::ffi::OsStr;

/// A paper or an article.
#[derive(Debug)]
pub struct Paper {
    /// The title of the paper.
    pub title: &'static str,
    /// The authors, the place of publication and the year.
    pub by: &'static str,
    /// The machine on which the published figures were measured.
    pub on: &'static str,
    /// The paper's experiments, in the paper's order.
    pub parts: &'static [Part],
}

/// A part of the paper, such as a diagram or a table.
#[derive(Debug)]
pub struct Part {
    /// The name of the part in options.
    pub name: &'static str,
    /// The place of the part in the paper.
    pub place: &'static str,
    /// A description of the part's figures in the paper, and of the figures measured here.
    pub about: &'static str,
    /// The method by which the part is reproduced here.
    pub way: Way,
    /// The part's figures, published and measured.
    pub lines: &'static [Line],
    /// Returns a sentence about results that this host cannot reproduce, and about the results that
    /// the page shows instead.
    pub instead: fn(&Circumstances) -> Option<String>,
}

/// The method by which a part is reproduced.
#[derive(Debug)]
pub enum Way {
    /// By an experiment.
    Command(Command),
    /// By a script that runs an experiment in a virtual machine, because the experiment would change this host, or
    /// needs something that this host lacks.
    Guest(Guest),
    /// Not reproduced by this command; the text gives the reason and the alternative.
    Nothing(&'static str),
}

/// A script in dayfly's source. The report shows the script's results if they are in the subdirectory `guest` of the
/// report's directory.
#[derive(Debug)]
pub struct Guest {
    /// The script with its options; the next argument is the directory for the results.
    pub script: &'static str,
    /// The name of the files with the results, without their extensions: JSON and a picture.
    pub file: &'static str,
    /// The reason why the experiment runs in a virtual machine.
    pub why: &'static str,
}

impl Guest {
    /// Returns the command that makes the results, where `DIR` stands for the report's directory.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} DIR/{}", self.script, super::kept::GUEST)
    }

    /// Returns the report's text about the missing results.
    #[must_use]
    pub fn missing(&self) -> String {
        format!(
            "{}. In the source of dayfly, \"{}\" measures it in a virtual machine; the report in DIR then shows it.",
            self.why,
            self.line()
        )
    }
}

/// An experiment.
#[derive(Debug)]
pub struct Command {
    /// The arguments after `dayfly`.
    pub line: &'static [&'static str],
    /// Arguments that are added for a quick report (10 minutes).
    pub quick: &'static [&'static str],
    /// Arguments that are added for a full report (an hour).
    pub full: &'static [&'static str],
    /// Arguments that are added if this host can limit CPU and memory by cgroups.
    pub limits: &'static [&'static str],
    /// The experiment's duration in seconds in a quick and in a full report, on two CPUs, with two other runtimes
    /// beside dayfly.
    pub seconds: [u64; 2],
    /// The runtimes that take part.
    pub runtimes: Runtimes,
    /// Whether the experiment draws a picture of its own.
    pub draws: bool,
}

/// The runtimes that take part in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtimes {
    /// All runtimes.
    All,
    /// All runtimes, named on the experiment's command line, because its default is only dayfly.
    Named,
    /// Only dayfly.
    Own,
    /// Only dayfly, with memory limits: in the host's own view if the report's view has no memory controller.
    OwnLimited,
    /// All runtimes, with memory limits: in another view if the report's view has no memory controller.
    AllLimited,
    /// No runtime: the experiment examines the host.
    None,
}

/// The extent of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// 10 minutes for all parts.
    Quick,
    /// An hour for all parts.
    Full,
}

/// A line of a part: one quantity, with its published figures and the rule for the measured figure.
#[derive(Debug)]
pub struct Line {
    /// The name of the measured quantity.
    pub what: &'static str,
    /// The published figures, if any.
    pub published: &'static [Published],
    /// The rule for extracting the figure from the experiment's results.
    pub take: Take,
    /// The unit of the measured figure.
    pub unit: &'static str,
}

/// A published figure.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Published {
    /// The figure as text, with its unit.
    pub text: &'static str,
    /// The figure in the unit of the line, for pictures; `None` if it has another unit.
    pub number: Option<f64>,
    /// The subject of the figure: a runtime, a machine.
    pub of: &'static str,
}

impl Published {
    /// Makes a published figure whose `number` is in the unit of the line.
    #[must_use]
    pub const fn number(text: &'static str, number: f64, of: &'static str) -> Self {
        Self { text, number: Some(number), of }
    }

    /// Makes a published figure without a number in the unit of the line.
    #[must_use]
    pub const fn text(text: &'static str, of: &'static str) -> Self {
        Self { text, number: None, of }
    }
}

impl Line {
    /// Returns the measured figures, one for each entrant.
    #[must_use]
    pub fn cells(&self, result: &serde_json::Value) -> Vec<Cell> {
        self.take.cells(result)
    }
}

/// Returns `None`: this host can reproduce everything.
pub(crate) fn all_shown(_: &Circumstances) -> Option<String> {
    None
}

impl Command {
    /// Returns the duration on two CPUs.
    #[must_use]
    pub fn seconds(&self, effort: Effort) -> u64 {
        let [quick, full] = self.seconds;
        if effort == Effort::Quick { quick } else { full }
    }

    /// Returns the arguments of the command, after `dayfly`.
    #[must_use]
    pub fn words(
        &self,
        name: &str,
        effort: Effort,
        options: &Report,
        host: &Circumstances,
    ) -> Vec<String> {
        let more = if effort == Effort::Quick { self.quick } else { self.full };
        let mut words: Vec<String> =
            self.line.iter().chain(more).map(|&word| word.to_owned()).collect();
        let limits = ["cpu", "memory"].into_iter().all(crate::cgroup::can_limit);
        words.extend(self.limits.iter().filter(|_| limits).map(|&word| word.to_owned()));
        let is_bench = self.line.first() == Some(&"bench");
        let has_containers = is_bench && self.runtimes != Runtimes::None;
        let limited = [Runtimes::OwnLimited, Runtimes::AllLimited].contains(&self.runtimes);
        let has_view = has_containers && !limited;
        if let Some(view) = options.view.filter(|_| has_view) {
            words.extend(["--view".to_owned(), view.name().to_owned()]);
        }
        if options.no_device_rules && has_containers {
            words.push("--no-device-rules".to_owned());
        }
        let found = host.runtimes.iter().map(|runtime| runtime.name.clone());
        let taking_part: Vec<String> = match self.runtimes {
            Runtimes::Named if options.runtimes.is_empty() => found.collect(),
            Runtimes::All | Runtimes::Named | Runtimes::AllLimited => options.runtimes.clone(),
            Runtimes::Own | Runtimes::OwnLimited => {
                options.runtimes.iter().take(1).cloned().collect()
            }
            Runtimes::None => Vec::new(),
        };
        for runtime in taking_part {
            words.extend(["--runtime".to_owned(), runtime]);
        }
        if let Some(rounds) = options.rounds.filter(|_| is_bench) {
            set_rounds(&mut words, rounds);
        }
        if self.draws {
            words.extend(["--svg".to_owned(), format!("{name}.svg")]);
        }
        words
    }

    /// Returns the option for JSON output.
    #[must_use]
    pub fn as_json(&self) -> &'static [&'static str] {
        if self.line.first() == Some(&"bench") { &["--json"] } else { &["--format", "json"] }
    }
}

/// Sets the number of rounds, by the option that the experiment has for it.
fn set_rounds(words: &mut [String], rounds: usize) {
    for at in 1..words.len() {
        let counts = ["--rounds", "--count", "-n"].map(OsStr::new);
        // If an experiment has several of these options, `--rounds` is the one that sets the number of rounds.
        let has_rounds = words.iter().any(|word| word == "--rounds");
        let option = OsStr::new(&words[at - 1]);
        if option == counts[0] || (!has_rounds && counts.contains(&option)) {
            words[at] = rounds.to_string();
        }
    }
}
