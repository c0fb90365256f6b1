//! What the command line offers, as data: parser, help, man pages and completions all come from here.

mod checkpoint;
mod commands;
pub mod options;

pub use commands::COMMANDS;
pub use options::GLOBALS;

use crate::failure::Failure;
use crate::invocation::Invocation;

/// The program's name.
pub const NAME: &str = "dayfly";

/// The program in a line.
pub const ABOUT: &str = "run OCI containers fast";

/// The program in a few paragraphs, for help and the man page.
pub const DESCRIPTION: &str = "\
dayfly creates and runs containers as the Open Container Initiative's runtime
specification describes them. It takes the command line of runc, so that
container engines can call it in runc's place.

A container is described by a bundle: a directory with a file config.json and
the root filesystem. \"dayfly run -b BUNDLE NAME\" runs one; \"dayfly spec\" writes
a config.json to begin with. The directory given as --root holds the state of
the containers that exist.";

/// What a value of an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Present or not; takes a value only as `--name=false`.
    Flag,
    /// A text; the last one counts.
    Text,
    /// A text; all of them count.
    Texts,
    /// A decimal integer; the last one counts.
    Integer,
    /// A decimal integer; all of them count.
    Integers,
    /// A time such as `5s` or `1m30s`.
    Duration,
}

/// An option.
#[derive(Debug, PartialEq, Eq)]
pub struct Opt {
    /// The name after `--`; one dash will do as well.
    pub long: &'static str,
    /// The short name after `-`.
    pub short: Option<char>,
    /// What its value is.
    pub kind: Kind,
    /// What its value is called in help; empty for flags.
    pub value: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// The texts it takes, if they can be listed.
    pub choices: &'static [&'static str],
    /// Not shown: accepted because callers pass it.
    pub hidden: bool,
}

impl Opt {
    const fn new(long: &'static str, kind: Kind, value: &'static str, help: &'static str) -> Self {
        Self { long, short: None, kind, value, help, choices: &[], hidden: false }
    }

    const fn flag(long: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Flag, "", help)
    }

    const fn text(long: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Text, value, help)
    }

    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Whether `name`, without its dashes, names this option.
    pub fn is_named(&self, name: &str) -> bool {
        let mut letters = name.chars();
        self.long == name
            || (self.short.is_some() && self.short == letters.next() && letters.next().is_none())
    }

    /// Whether every value given counts.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.kind, Kind::Texts | Kind::Integers)
    }
}

/// Where options may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Anywhere before `--`.
    Mixed,
    /// The same; with this option only before the first argument, of which there may be any number.
    MixedUnless(&'static Opt),
    /// Before the first argument only: what follows is for somebody else.
    OptionsFirst,
    /// Nowhere: all of it is for another program, which knows help of its own.
    PassedOn,
}

/// A positional argument.
#[derive(Debug)]
pub struct Argument {
    /// What it is called in help.
    pub name: &'static str,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether any number of them may follow.
    pub repeated: bool,
}

impl Argument {
    const fn new(name: &'static str) -> Self {
        Self { name, optional: false, repeated: false }
    }

    const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    const fn repeated(mut self) -> Self {
        self.repeated = true;
        self
    }
}

/// A command line worth showing, and what it does.
#[derive(Debug)]
pub struct Example {
    /// The command line without the program's name.
    pub line: &'static str,
    /// What it does.
    pub does: &'static str,
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// More about it; may be empty.
    pub description: &'static str,
    /// Its options, besides `--help`.
    pub options: &'static [&'static Opt],
    /// Its positional arguments.
    pub arguments: &'static [Argument],
    /// Where its options may stand.
    pub order: Order,
    /// How it is used.
    pub examples: &'static [Example],
    /// What it does.
    pub(crate) action: Action,
}

/// What a command does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// What its file says; it ends with 0.
    Run(fn(&Invocation<'_>) -> Result<(), Failure>),
    /// The same; it ends with the status returned.
    Status(fn(&Invocation<'_>) -> Result<i32, Failure>),
    /// Becomes this program, which is given these words before the command's arguments.
    Execute(&'static str, &'static [&'static str]),
}

impl Command {
    /// A command with nothing but a container id.
    const fn new(name: &'static str, action: Action, about: &'static str) -> Self {
        const ID: &[Argument] = &[Argument::new("CONTAINER")];
        Self {
            name,
            about,
            description: "",
            options: &[],
            arguments: ID,
            order: Order::Mixed,
            examples: &[],
            action,
        }
    }

    /// The fewest positional arguments it takes.
    pub fn least_arguments(&self) -> usize {
        self.arguments.iter().filter(|argument| !argument.optional).count()
    }

    /// The most positional arguments it takes, if there is a limit.
    pub fn most_arguments(&self) -> Option<usize> {
        let unlimited = self.arguments.iter().any(|argument| argument.repeated);
        (!unlimited).then_some(self.arguments.len())
    }
}

/// The command of that name.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// A name that users of other tools have in their fingers.
#[derive(Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// The words that it stands for: a command, and what its arguments begin with.
    pub words: &'static [&'static str],
    /// Whether it has that meaning only where nothing follows it.
    pub stands_alone: bool,
}

impl Alias {
    const fn new(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, words, stands_alone: false }
    }
}

/// Every alias. `version` is one of `--version`.
pub static ALIASES: &[Alias] = &[
    Alias::new("ls", &["list"]),
    // With a container it is runc's command.
    Alias { stands_alone: true, ..Alias::new("ps", &["list"]) },
    Alias::new("rm", &["delete"]),
    Alias::new("inspect", &["state"]),
    Alias::new("images", &["image", "ls"]),
    Alias::new("pull", &["image", "pull"]),
    Alias::new("version", &["version"]),
];

/// The alias of that name, if it may be followed by `rest`.
pub fn find_alias(name: &str, rest: &[&str]) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name && (rest.is_empty() || !alias.stands_alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (at, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..at].iter().all(|other| other.name != command.name));
        }
        for options in COMMANDS.iter().map(|command| command.options).chain([GLOBALS]) {
            let help = [&options::HELP];
            let all: Vec<&Opt> = options.iter().copied().chain(help).collect();
            for (at, option) in all.iter().enumerate() {
                for other in &all[..at] {
                    assert_ne!(other.long, option.long);
                    assert!(option.short.is_none() || option.short != other.short, "{option:?}");
                }
            }
        }
    }

    #[test]
    fn aliases_are_of_commands() {
        for alias in ALIASES {
            let is_command = |name: &str| find(name).is_some();
            assert!(is_command(alias.words[0]) || alias.name == "version", "{alias:?}");
            assert_eq!(is_command(alias.name), alias.stands_alone, "{alias:?}");
        }
        assert_eq!(find_alias("ps", &[]).unwrap().words, ["list"]);
        assert!(find_alias("ps", &["web"]).is_none());
        assert_eq!(find_alias("rm", &["web"]).unwrap().words, ["delete"]);
    }

    #[test]
    fn texts_are_as_help_shows_them() {
        for option in COMMANDS.iter().flat_map(|command| command.options).chain(GLOBALS) {
            assert_eq!(option.kind == Kind::Flag, option.value.is_empty(), "{option:?}");
            assert!(!option.help.ends_with('.') && !option.help.is_empty(), "{option:?}");
        }
        for command in COMMANDS {
            assert!(!command.about.ends_with('.') && !command.about.is_empty(), "{command:?}");
            assert!(command.description.lines().all(|line| line.len() <= 80), "{}", command.name);
        }
    }
}
