//! The option values of a command line.

use alloc::vec::Vec;

use crate::option::Opt;
use crate::{duration, number};

/// The options that were given, in order. Every value has been checked against its option's type.
#[derive(Debug, Default)]
pub struct Values<'a>(Vec<(&'static Opt, &'a str)>);

impl<'a> Values<'a> {
    pub(crate) fn push(&mut self, option: &'static Opt, value: &'a str) {
        self.0.push((option, value));
    }

    fn last(&self, option: &'static Opt) -> Option<&'a str> {
        self.texts(option).next_back()
    }

    /// Returns whether the option was given.
    pub fn is_set(&self, option: &'static Opt) -> bool {
        self.last(option).is_some()
    }

    /// Returns a flag's value, if it was given.
    pub fn boolean(&self, option: &'static Opt) -> Option<bool> {
        self.last(option).and_then(boolean)
    }

    /// Returns whether a flag was given and is not `=false`.
    pub fn flag(&self, option: &'static Opt) -> bool {
        self.boolean(option) == Some(true)
    }

    /// Returns the option's last text; an empty text counts as missing.
    pub fn text(&self, option: &'static Opt) -> Option<&'a str> {
        self.last(option).filter(|text| !text.is_empty())
    }

    /// Returns all texts of the option.
    pub fn texts(&self, option: &'static Opt) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.iter().filter(|(set, _)| set.long == option.long).map(|(_, value)| *value)
    }

    /// Returns the option's last integer.
    pub fn integer(&self, option: &'static Opt) -> Option<i64> {
        self.last(option).and_then(|text| number::parse(text).ok())
    }

    /// Returns all integers of the option.
    pub fn integers(&self, option: &'static Opt) -> impl Iterator<Item = i64> {
        self.texts(option).filter_map(|text| number::parse(text).ok())
    }

    /// Returns the option's last duration, in nanoseconds.
    pub fn duration(&self, option: &'static Opt) -> Option<i64> {
        self.last(option).and_then(duration::parse)
    }
}

/// Parses a boolean in the spellings of Go's `strconv.ParseBool`.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
