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
    /// Whether the option makes a command overwrite or remove something. Advice on a misspelt option never names it.
    pub destroys: bool,
}

impl Opt {
    /// Returns the option that `names` describes, such as `-b, --bundle DIR`: a flag if there is no value, else a text.
    pub(crate) const fn new(names: &'static str, help: &'static str) -> Self {
        let (short, names) = match names.as_bytes() {
            [b'-', short, b',', b' ', ..] => {
                (Some(*short as char), names.split_at("-b, --".len()).1)
            }
            _ => (None, names.split_at("--".len()).1),
        };
        let mut end = 0;
        while end < names.len() && names.as_bytes()[end] != b' ' {
            end += 1;
        }
        let (long, value) = names.split_at(end);
        let (kind, value) = match value.is_empty() {
            true => (Kind::Flag, ""),
            false => (Kind::Text, value.split_at(1).1),
        };
        Self { long, short, kind, value, help, choices: &[], hidden: false, destroys: false }
    }

    pub(crate) const fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
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

    pub(crate) const fn destroys(mut self) -> Self {
        self.destroys = true;
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
