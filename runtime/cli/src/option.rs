//! An option of the command line.

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A boolean. A value is optional, and must follow `=`, as in `--name=false`.
    Flag,
    /// A text. If the option is repeated, the last text applies.
    Text,
    /// A text. If the option is repeated, all texts apply.
    Texts,
    /// A decimal integer. If the option is repeated, the last integer applies.
    Integer,
    /// A decimal integer. If the option is repeated, all integers apply.
    Integers,
    /// A time such as `5s` or `1m30s`.
    Duration,
}

/// An option.
#[derive(Debug, PartialEq, Eq)]
pub struct Opt {
    /// The name after `--`; a single dash is accepted, too.
    pub long: &'static str,
    /// The short name after `-`.
    pub short: Option<char>,
    /// The type of the option's value.
    pub kind: Kind,
    /// The placeholder of the option's value in help; empty for flags.
    pub value: &'static str,
    /// A one-line description.
    pub help: &'static str,
    /// The accepted values, if they can be listed.
    pub choices: &'static [&'static str],
    /// Whether the option is left out of the help. It is accepted only because callers pass it.
    pub hidden: bool,
}

impl Opt {
    pub(crate) const fn new(
        long: &'static str,
        kind: Kind,
        value: &'static str,
        help: &'static str,
    ) -> Self {
        Self { long, short: None, kind, value, help, choices: &[], hidden: false }
    }

    pub(crate) const fn flag(long: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Flag, "", help)
    }

    pub(crate) const fn text(long: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Text, value, help)
    }

    pub(crate) const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    pub(crate) const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    pub(crate) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Returns whether `name`, without its dashes, names this option.
    pub fn is_named(&self, name: &str) -> bool {
        let mut letters = name.chars();
        self.long == name
            || (self.short.is_some() && self.short == letters.next() && letters.next().is_none())
    }

    /// Returns whether all values apply if the option is repeated.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.kind, Kind::Texts | Kind::Integers)
    }
}
