//! The options that a command line set.

use alloc::vec::Vec;

use crate::definition::Opt;
use crate::{duration, number};

/// The options set, in their order. Every value has been checked against its option's kind.
#[derive(Debug, Default)]
pub struct Values<'a>(Vec<(&'static Opt, &'a str)>);

impl<'a> Values<'a> {
    pub(crate) fn push(&mut self, option: &'static Opt, value: &'a str) {
        self.0.push((option, value));
    }

    fn all(&self, option: &'static Opt) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.iter().filter(|(set, _)| set.long == option.long).map(|(_, value)| *value)
    }

    fn last(&self, option: &'static Opt) -> Option<&'a str> {
        self.all(option).next_back()
    }

    /// Whether the option was given at all.
    pub fn is_set(&self, option: &'static Opt) -> bool {
        self.last(option).is_some()
    }

    /// A flag's value, if it was given.
    pub fn boolean(&self, option: &'static Opt) -> Option<bool> {
        self.last(option).and_then(boolean)
    }

    /// Whether a flag was given, and not as `=false`.
    pub fn flag(&self, option: &'static Opt) -> bool {
        self.boolean(option) == Some(true)
    }

    /// The last text given; an empty one counts as none.
    pub fn text(&self, option: &'static Opt) -> Option<&'a str> {
        self.last(option).filter(|text| !text.is_empty())
    }

    /// All texts given.
    pub fn texts(&self, option: &'static Opt) -> impl Iterator<Item = &'a str> {
        self.all(option)
    }

    /// The last integer given.
    pub fn integer(&self, option: &'static Opt) -> Option<i64> {
        self.last(option).and_then(|text| number::parse(text).ok())
    }

    /// All integers given.
    pub fn integers(&self, option: &'static Opt) -> impl Iterator<Item = i64> {
        self.all(option).filter_map(|text| number::parse(text).ok())
    }

    /// The last duration given, in nanoseconds.
    pub fn duration(&self, option: &'static Opt) -> Option<i64> {
        self.last(option).and_then(duration::parse)
    }
}

/// Reads a boolean in the spellings that Go's `strconv.ParseBool` takes.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
