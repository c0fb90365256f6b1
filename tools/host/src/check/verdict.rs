//! What the check comes to: verdicts, each a fact, what it means for starts, and what helps.

use serde::Serialize;
use serde_json::{Map, Value};

/// How good or bad a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing; nothing to do.
    Note,
    /// Starts take longer than they need to, or will when there are many.
    Warning,
    /// Containers can't start, or the host stalls.
    Error,
}

impl Level {
    /// What stands before a verdict.
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
    /// What it is about, for programs; stays the same.
    pub id: &'static str,
    /// The same for people.
    pub name: &'static str,
    /// How good it is.
    pub level: Level,
    /// The observed fact.
    pub fact: String,
    /// Its effect on the start of containers.
    pub why: String,
    /// Commands, files or parameters that improve it.
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
