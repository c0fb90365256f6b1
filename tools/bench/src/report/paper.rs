//! What a paper or an article shows, and the experiment that shows it here.

use super::take::{Cell, Take};
use crate::circumstances::Circumstances;
use crate::options::Report;
use serde::Serialize;
use std::ffi::OsStr;

/// A paper or an article.
#[derive(Debug)]
pub struct Paper {
    /// Its title.
    pub title: &'static str,
    /// Who wrote it, where and when.
    pub by: &'static str,
    /// What its figures were measured on.
    pub on: &'static str,
    /// Its experiments, in its order.
    pub parts: &'static [Part],
}

/// A figure or a table of it.
#[derive(Debug)]
pub struct Part {
    /// Its name in options.
    pub name: &'static str,
    /// Where it stands in the paper.
    pub place: &'static str,
    /// What it shows there, and what is done here.
    pub about: &'static str,
    /// How it is done here.
    pub way: Way,
    /// Its figures, the published beside the measured.
    pub lines: &'static [Line],
    /// What of it this host can't show, and what is shown instead.
    pub instead: fn(&Circumstances) -> Option<String>,
}

/// How a part is done.
#[derive(Debug)]
pub enum Way {
    /// By an experiment.
    Command(Command),
    /// Not by this command: why, and what there is instead.
    Nothing(&'static str),
}

/// An experiment.
#[derive(Debug)]
pub struct Command {
    /// The words after `dayfly`.
    pub line: &'static [&'static str],
    /// More of them, for a report within 10 minutes.
    pub quick: &'static [&'static str],
    /// More of them, for one within an hour.
    pub full: &'static [&'static str],
    /// More of them where cgroups here can be limited.
    pub limits: &'static [&'static str],
    /// How long it takes with two peers on two CPUs, in seconds: quick, full.
    pub seconds: [u64; 2],
    /// Who takes part.
    pub runtimes: Runtimes,
    /// Whether it draws a picture of its own.
    pub draws: bool,
}

/// Who takes part in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtimes {
    /// All that there are.
    All,
    /// All, and the experiment must be told: by itself it takes dayfly alone.
    Named,
    /// dayfly.
    Own,
    /// dayfly, where its containers' memory can be limited: as the host is, if the report's view has no controller.
    OwnLimited,
    /// No runtime: it is about the host.
    None,
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// All within 10 minutes.
    Quick,
    /// All within an hour.
    Full,
}

/// A figure.
#[derive(Debug)]
pub struct Line {
    /// What was measured.
    pub what: &'static str,
    /// What was published of it, if anything was.
    pub published: &'static [Published],
    /// What of the experiment's results it is.
    pub take: Take,
    /// The unit of the measured figure.
    pub unit: &'static str,
}

/// A figure as it was published.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Published {
    /// For people, with its unit.
    pub text: &'static str,
    /// In the unit of the line, for pictures; none of figures in other units.
    pub number: Option<f64>,
    /// What it is of: a runtime, a machine.
    pub of: &'static str,
}

impl Published {
    /// A number in the unit of the line.
    #[must_use]
    pub const fn number(text: &'static str, number: f64, of: &'static str) -> Self {
        Self { text, number: Some(number), of }
    }

    /// Anything else.
    #[must_use]
    pub const fn text(text: &'static str, of: &'static str) -> Self {
        Self { text, number: None, of }
    }
}

impl Line {
    /// The measured figures, one for each of those that took part.
    #[must_use]
    pub fn cells(&self, result: &serde_json::Value) -> Vec<Cell> {
        self.take.cells(result)
    }
}

/// Nothing is missing.
pub(crate) fn all_shown(_: &Circumstances) -> Option<String> {
    None
}

impl Command {
    /// How long it takes on two CPUs.
    #[must_use]
    pub fn seconds(&self, effort: Effort) -> u64 {
        let [quick, full] = self.seconds;
        if effort == Effort::Quick { quick } else { full }
    }

    /// What is executed, after `dayfly`.
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
        let has_view = has_containers && self.runtimes != Runtimes::OwnLimited;
        if let Some(view) = options.view.filter(|_| has_view) {
            words.extend(["--view".to_owned(), view.name().to_owned()]);
        }
        if options.no_device_rules && has_containers {
            words.push("--no-device-rules".to_owned());
        }
        let found = host.runtimes.iter().map(|runtime| runtime.name.clone());
        let taking_part: Vec<String> = match self.runtimes {
            Runtimes::Named if options.runtimes.is_empty() => found.collect(),
            Runtimes::All | Runtimes::Named => options.runtimes.clone(),
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

    /// The option that has it write JSON.
    #[must_use]
    pub fn as_json(&self) -> &'static [&'static str] {
        if self.line.first() == Some(&"bench") { &["--json"] } else { &["--format", "json"] }
    }
}

/// Has an experiment go through so many rounds, however it calls them.
fn set_rounds(words: &mut [String], rounds: usize) {
    for at in 1..words.len() {
        let counts = ["--rounds", "--count", "-n"].map(OsStr::new);
        // Of an experiment that has both the rounds count.
        let has_rounds = words.iter().any(|word| word == "--rounds");
        let option = OsStr::new(&words[at - 1]);
        if option == counts[0] || (!has_rounds && counts.contains(&option)) {
            words[at] = rounds.to_string();
        }
    }
}
