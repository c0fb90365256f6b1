//! The results of the check: verdicts, each with a fact, its effect on container starts, and advice. Their sentences are
//! in `verdicts.toml`: a table for each subject, with a row for each case.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::LazyLock;

/// The level of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// A subject of `verdicts.toml`.
#[derive(Deserialize)]
struct Subject {
    name: String,
    #[serde(flatten)]
    cases: BTreeMap<String, Row>,
}

/// A case of a subject. Its sentences have placeholders such as `{release}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    level: Level,
    fact: String,
    why: String,
    #[serde(default)]
    fix: Vec<String>,
}

/// The subjects by chapter. The subject `all.subjects` has cases that all subjects may have.
static TABLE: LazyLock<BTreeMap<String, BTreeMap<String, Subject>>> =
    LazyLock::new(|| toml::from_str(include_str!("verdicts.toml")).expect("verdicts.toml"));

/// Returns a subject of the table.
fn subject(id: &str) -> Option<&'static Subject> {
    let (chapter, subject) = id.split_once('.')?;
    TABLE.get(chapter)?.get(subject)
}

impl Verdict {
    /// Returns the verdict on a subject in one of its cases.
    ///
    /// # Panics
    /// The table has no such case.
    pub fn of(id: &'static str, case: &str) -> Self {
        let found = subject(id).and_then(|own| {
            let row = own.cases.get(case).or_else(|| subject("all.subjects")?.cases.get(case))?;
            Some((&own.name, row))
        });
        let (name, row) = found.unwrap_or_else(|| panic!("verdicts.toml: no {case} of {id}"));
        let (fact, why, fix) = (row.fact.clone(), row.why.clone(), row.fix.clone());
        Self { id, name, level: row.level, fact, why, fix, data: Map::new() }
    }

    /// Replaces the placeholder `{name}` in all sentences.
    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        let (place, value) = (format!("{{{name}}}"), value.to_string());
        for text in [&mut self.fact, &mut self.why].into_iter().chain(&mut self.fix) {
            *text = text.replace(&place, &value);
        }
        self
    }

    /// Adds a figure, and replaces the placeholder with its name.
    pub fn figure(self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let mut verdict = match &value {
            Value::String(text) => self.with(name, text),
            value => self.with(name, value),
        };
        verdict.data.insert(name.to_owned(), value);
        verdict
    }

    /// Adds a figure if it is known.
    pub fn known(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.figure(name, value),
            None => self,
        }
    }

    /// Adds advice if `needed`.
    pub fn fix_if(mut self, needed: bool, fix: impl Into<String>) -> Self {
        if needed {
            self.fix.push(fix.into());
        }
        self
    }

    /// Makes this a warning with advice if `slow`.
    pub fn warn_if(self, slow: bool, fix: &str) -> Self {
        let level = if slow { Level::Warning } else { self.level };
        Self { level, ..self }.fix_if(slow, fix)
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
pub fn worst(sections: &[Section]) -> Level {
    let all = sections.iter().flat_map(|section| &section.verdicts);
    all.map(|verdict| verdict.level).max().unwrap_or(Level::Good)
}
