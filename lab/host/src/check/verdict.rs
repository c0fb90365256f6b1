//! The results of the check: verdicts, each with a fact, its effect on container starts, and advice.

use serde::Serialize;
use serde_json::{Map, Value};

/// The level of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Everything is as it should be.
    Good,
    /// The fact is worth knowing, but nothing needs to be done.
    Note,
    /// Starts take longer than necessary, or will take longer when there are many.
    Warning,
    /// Containers can't start, or the host stalls.
    Error,
}

impl Level {
    /// Returns the mark that is printed before a verdict.
    #[must_use]
    pub fn mark(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Note => '·',
            Self::Warning => '!',
            Self::Error => '✗',
        }
    }
}

/// A verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// A stable identifier of the verdict's subject, for programs.
    pub id: &'static str,
    /// The name of the verdict's subject, for people.
    pub name: &'static str,
    /// The level.
    pub level: Level,
    /// The observed fact.
    pub fact: String,
    /// The fact's effect on the start of containers.
    pub why: String,
    /// Advice: commands, files or parameters that improve the fact.
    pub fix: Vec<String>,
    /// The fact's figures.
    pub data: Map<String, Value>,
}

impl Verdict {
    /// Returns a verdict without advice.
    pub fn new(
        (id, name): (&'static str, &'static str),
        level: Level,
        fact: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let (fact, why) = (fact.into(), why.into());
        Self { id, name, level, fact, why, fix: Vec::new(), data: Map::new() }
    }

    /// Adds advice.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix.push(fix.into());
        self
    }

    /// Adds advice if `needed`.
    #[must_use]
    pub fn fix_if(self, needed: bool, fix: impl Into<String>) -> Self {
        if needed { self.fix(fix) } else { self }
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }
}

/// Verdicts on one subject.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// The subject.
    pub title: &'static str,
    /// The verdicts.
    pub verdicts: Vec<Verdict>,
}

/// Returns the worst level of all verdicts.
#[must_use]
pub fn worst(sections: &[Section]) -> Level {
    let all = sections.iter().flat_map(|section| &section.verdicts);
    all.map(|verdict| verdict.level).max().unwrap_or(Level::Good)
}
