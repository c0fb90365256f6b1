//! The definition of the command line as data. The parser uses this data, and help, man pages and completions are
//! generated from it.

mod commands;
pub mod options;

pub use commands::COMMANDS;
pub use options::GLOBALS;

use alloc::string::String;
use alloc::vec::Vec;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::option::Opt;

/// A one-line description of the program.
pub const ABOUT: &str = "run OCI containers fast";

/// A description of the program in a few paragraphs, for help and the man page.
pub const DESCRIPTION: &str = "\
dayfly creates and runs containers according to the runtime specification of the
Open Container Initiative. Its command line is that of runc, so that container
engines can call dayfly instead of runc.

A container is described by a bundle: a directory with a file config.json and
the root filesystem. \"dayfly run -b BUNDLE NAME\" runs a bundle; \"dayfly spec\"
writes a template of config.json. The directory --root contains the state of the
existing containers.";

/// Returns the total number of options in `lists`.
const fn count(lists: &[&[&'static Opt]]) -> usize {
    let (mut sum, mut list) = (0, 0);
    while list < lists.len() {
        sum += lists[list].len();
        list += 1;
    }
    sum
}

/// Joins lists of options; `N` is the total number of options.
const fn joined<const N: usize>(lists: &[&[&'static Opt]]) -> [&'static Opt; N] {
    let mut all = [&options::HELP; N];
    let (mut filled, mut list) = (0, 0);
    while list < lists.len() {
        let mut option = 0;
        while option < lists[list].len() {
            all[filled] = lists[list][option];
            filled += 1;
            option += 1;
        }
        list += 1;
    }
    assert!(filled == N, "N is not the number of options");
    all
}

/// The positions at which options are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Options are accepted anywhere before `--`.
    Mixed,
    /// As [`Order::Mixed`], unless one of the options in this variant is given. If it is given, options are accepted
    /// only before the first argument, and any number of arguments is accepted. The text names these arguments in help.
    MixedUnless(&'static [(&'static Opt, &'static str)]),
    /// Options are accepted only before the first argument; all following words are passed to another program.
    OptionsFirst,
    /// Options are accepted nowhere: all words are passed to another program, which prints its own help.
    PassedOn,
}

/// A positional argument.
#[derive(Debug)]
pub struct Argument {
    /// The argument's name in help.
    pub name: &'static str,
    /// Whether the argument is optional.
    pub optional: bool,
    /// Whether the argument may be repeated.
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

/// An example command line and its effect.
#[derive(Debug)]
pub struct Example {
    /// The command line without the program's name.
    pub line: &'static str,
    /// The effect of the command line.
    pub does: &'static str,
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// The command's name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// A longer description; may be empty.
    pub description: &'static str,
    /// The command's options, besides `--help`.
    pub options: &'static [&'static Opt],
    /// The command's positional arguments.
    pub arguments: &'static [Argument],
    /// The positions at which the command's options are accepted.
    pub order: Order,
    /// Examples.
    pub examples: &'static [Example],
    /// The command's action.
    pub(crate) action: Action,
}

/// The action of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// Runs the command's function, and exits with status 0 if it succeeds.
    Run(fn(&Invocation<'_>) -> Result<(), Failure>),
    /// Runs the command's function, and exits with the status that it returns.
    Status(fn(&Invocation<'_>) -> Result<i32, Failure>),
    /// Executes the named program, with the listed words before the command's arguments.
    Execute(&'static str, &'static [&'static str]),
}

impl Order {
    /// Returns the options that change which arguments a command accepts.
    pub const fn changing(self) -> &'static [(&'static Opt, &'static str)] {
        match self {
            Self::MixedUnless(options) => options,
            Self::Mixed | Self::OptionsFirst | Self::PassedOn => &[],
        }
    }
}

impl Command {
    /// Returns a command whose only argument is a container id.
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

    /// Some commands have options that change which arguments they accept, such as `run --image` and `events --all`.
    /// Returns the command's synopses with these options.
    pub fn other_forms(&self) -> Vec<String> {
        let form = |(option, arguments): &(&Opt, &str)| {
            let words = ["[options] --", option.long, " ", option.value, " ", arguments];
            String::from(words.concat().trim_end())
        };
        self.order.changing().iter().map(form).collect()
    }

    /// Returns the minimum number of positional arguments.
    pub fn least_arguments(&self) -> usize {
        self.arguments.iter().filter(|argument| !argument.optional).count()
    }

    /// Returns the maximum number of positional arguments, if limited.
    pub fn most_arguments(&self) -> Option<usize> {
        let unlimited = self.arguments.iter().any(|argument| argument.repeated);
        (!unlimited).then_some(self.arguments.len())
    }
}

/// Returns the command with this name.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// A name that other tools use for a command of dayfly.
#[derive(Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// The words that replace the alias: a command, followed by its first arguments.
    pub words: &'static [&'static str],
    /// Whether the alias is replaced only if no arguments follow it.
    pub stands_alone: bool,
}

impl Alias {
    const fn new(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, words, stands_alone: false }
    }
}

/// Every alias. The word `version` means the same as `--version`.
pub static ALIASES: &[Alias] = &[
    Alias::new("ls", &["list"]),
    // With a container as argument, `ps` is runc's command.
    Alias { stands_alone: true, ..Alias::new("ps", &["list"]) },
    Alias::new("rm", &["delete"]),
    Alias::new("inspect", &["state"]),
    Alias::new("images", &["image", "ls"]),
    Alias::new("pull", &["image", "pull"]),
    Alias::new("version", &["version"]),
];

/// Returns the alias with this name, if the arguments `rest` may follow it.
pub fn find_alias(name: &str, rest: &[&str]) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name && (rest.is_empty() || !alias.stands_alone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::Kind;

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
