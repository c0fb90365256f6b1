//! The definition of the command line as data. The parser uses this data, and help, man pages and completions are
//! generated from it.

mod commands;
pub mod engines;
pub mod options;

pub use commands::COMMANDS;
pub use options::GLOBALS;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;

use crate::NAME;
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

\"dayfly run -it IMAGE\" runs an image, which \"dayfly image\" brings into a store.
\"dayfly run -b BUNDLE NAME\" runs a bundle: a directory with a file config.json,
of which \"dayfly spec\" writes a template, and the root filesystem. The directory
--root contains the state of the existing containers.";

/// Groups of options, in the order in which help lists them.
pub type Options = &'static [&'static [&'static Opt]];

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

/// A command.
#[derive(Debug)]
pub struct Command {
    /// The command's name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// A longer description; may be empty.
    pub description: &'static str,
    /// The command's options, besides `--help`, in groups.
    pub options: Options,
    /// The headings of the groups of options in help; an empty one continues the group before. Without headings, the
    /// options are one group.
    pub headings: &'static [&'static str],
    /// The command's positional arguments, as help shows them: `[NAME]` is optional, and `[NAME...]` may be repeated.
    pub arguments: &'static str,
    /// The least and the greatest number of positional arguments.
    pub(crate) count: (usize, usize),
    /// The positions at which the command's options are accepted.
    pub order: Order,
    /// Examples: command lines without the program's name, each with its effect.
    pub examples: &'static [(&'static str, &'static str)],
    /// Whether advice on a misspelt command may name this one: it must not end, change, overwrite or remove anything
    /// that exists.
    pub(crate) is_guessed: bool,
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
    /// Executes the named program with the command's arguments.
    Execute(&'static str),
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

/// Counts the arguments that must and those that may be given. A `const fn`, because a start should not parse this text.
const fn count(arguments: &str) -> (usize, usize) {
    let bytes = arguments.as_bytes();
    let (mut least, mut most, mut at) = (0, 0_usize, 0);
    while at < bytes.len() {
        if at == 0 || bytes[at - 1] == b' ' {
            most = most.saturating_add(1);
            least += (bytes[at] != b'[') as usize;
        } else if bytes[at] == b'.' {
            most = usize::MAX;
        }
        at += 1;
    }
    (least, most)
}

impl Command {
    /// Returns a command whose only argument is a container id.
    const fn new(name: &'static str, action: Action, about: &'static str) -> Self {
        Self {
            name,
            about,
            description: "",
            options: &[],
            headings: &[],
            arguments: "CONTAINER",
            count: (1, 1),
            order: Order::Mixed,
            examples: &[],
            is_guessed: false,
            action,
        }
    }

    /// Returns a command that the program `tool` implements.
    const fn tool(name: &'static str, tool: &'static str, about: &'static str) -> Self {
        let command = Self::new(name, Action::Execute(tool), about);
        command.order(Order::PassedOn).arguments("COMMAND [ARGUMENT...]")
    }

    const fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    const fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    const fn headings(self, headings: &'static [&'static str]) -> Self {
        Self { headings, ..self }
    }

    const fn arguments(self, arguments: &'static str) -> Self {
        Self { arguments, count: count(arguments), ..self }
    }

    const fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    const fn guessed(self) -> Self {
        Self { is_guessed: true, ..self }
    }

    const fn examples(self, examples: &'static [(&'static str, &'static str)]) -> Self {
        Self { examples, ..self }
    }

    /// Returns the ways to call the command. Some options change which arguments a command accepts, such as `run --image`
    /// and `events --all`.
    pub fn calls(&self) -> Vec<String> {
        let options = if self.options.is_empty() { "" } else { " [options]" };
        let call = format!("{NAME} {}{options} {}", self.name, self.arguments);
        let other = |(option, arguments): &(&Opt, &str)| {
            format!("{NAME} {}{options} --{} {} {arguments}", self.name, option.long, option.value)
        };
        let calls = iter::once(call).chain(self.order.changing().iter().map(other));
        let mut calls: Vec<String> = calls.map(|call| call.trim_end().into()).collect();
        // What is typed most comes first.
        calls.sort_by_key(|call| !call.contains("--image"));
        calls
    }
}

/// The commands by subject, as help and README group them.
pub static GROUPS: &[(&str, &[&str])] = &[
    (
        "CONTAINERS",
        &[
            "run",
            "list",
            "ps",
            "stats",
            "inspect",
            "logs",
            "exec",
            "cp",
            "stop",
            "wait",
            "rm",
            "pause",
            "resume",
            "update",
            "checkpoint",
            "restore",
            "template",
        ],
    ),
    ("IMAGES", &["image", "rootfs", "gc"]),
    (
        "FOR ENGINES, AS IN RUNC",
        &["create", "start", "state", "kill", "delete", "events", "spec", "features"],
    ),
    ("STARTS, EXPLAINED AND MEASURED", &["plan", "trace", "bench", "profile"]),
    ("THE HOST", &["host", "cgroup", "cache"]),
];

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
    /// Whether the alias is replaced only if no container follows it.
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
    // With a container as argument, `ps` is runc's command. runc has none of the options of `list`.
    Alias { stands_alone: true, ..Alias::new("ps", &["list"]) },
    Alias::new("top", &["ps"]),
    Alias::new("unpause", &["resume"]),
    Alias::new("images", &["image", "ls"]),
    Alias::new("pull", &["image", "pull"]),
    Alias::new("rmi", &["image", "rm"]),
    Alias::new("tag", &["image", "tag"]),
    Alias::new("save", &["image", "save"]),
    Alias::new("load", &["image", "load"]),
    Alias::new("import", &["image", "import", "--rootfs"]),
    Alias::new("history", &["image", "history"]),
    Alias::new("version", &["version"]),
];

/// Returns the alias with this name, if the arguments `rest` may follow it.
pub fn find_alias(name: &str, rest: &[&str]) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name && (!alias.stands_alone || is_list(rest)))
}

/// Returns whether the words after `ps` are options of `list`.
fn is_list(words: &[&str]) -> bool {
    const FLAGS: [&str; 7] = ["-a", "-q", "-aq", "-qa", "--all", "--quiet", "--no-trunc"];
    let words = match words {
        ["--format", "json" | "table", rest @ ..] => rest,
        words => words,
    };
    words.iter().all(|word| FLAGS.contains(word))
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
            let all = [options.concat(), vec![&options::HELP]].concat();
            for (at, option) in all.iter().enumerate() {
                for other in &all[..at] {
                    assert_ne!(other.long, option.long);
                    assert!(option.short.is_none() || option.short != other.short, "{option:?}");
                }
            }
        }
    }

    /// README's table of commands has a line in bold before each group.
    #[test]
    fn groups_are_those_of_readme() {
        let readme = include_str!("../../../README.md");
        let (_, table) = readme.split_once("\n## Commands\n").unwrap();
        let (table, _) = table.split_once("\n## ").unwrap();
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for row in table.lines().filter_map(|line| line.strip_prefix("| ")) {
            let (cell, _) = row.split_once(" | ").unwrap();
            match cell.strip_prefix("**").and_then(|cell| cell.strip_suffix("**")) {
                Some(title) => groups.push((title.to_uppercase(), Vec::new())),
                None => {
                    let commands = cell.split('`').skip(1).step_by(2);
                    let names = commands.filter_map(|command| command.split(' ').next());
                    groups.last_mut().into_iter().for_each(|(_, all)| all.extend(names.clone()));
                }
            }
        }
        let defined = GROUPS.iter().map(|(title, names)| (title.to_string(), names.to_vec()));
        assert_eq!(groups, defined.collect::<Vec<_>>());
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for command in COMMANDS {
            assert_eq!(
                grouped.iter().filter(|name| **name == command.name).count(),
                1,
                "{}",
                command.name
            );
            let groups = command.options.len();
            assert!(command.headings.is_empty() || command.headings.len() == groups);
        }
        assert_eq!(grouped.len(), COMMANDS.len());
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
        for words in [&["-a"][..], &["-aq"], &["--no-trunc", "-q"], &["--format", "json", "-a"]] {
            assert!(find_alias("ps", words).is_some(), "{words:?}");
        }
        for words in [&["-ef"][..], &["-a", "web"], &["--format", "json", "web"]] {
            assert!(find_alias("ps", words).is_none(), "{words:?}");
        }
        assert_eq!(find_alias("rmi", &["web"]).unwrap().words, ["image", "rm"]);
    }

    #[test]
    fn texts_are_as_help_shows_them() {
        for option in COMMANDS
            .iter()
            .map(|command| command.options)
            .chain([GLOBALS])
            .flatten()
            .copied()
            .flatten()
        {
            assert_eq!(option.kind == Kind::Flag, option.value.is_empty(), "{option:?}");
            assert!(!option.help.ends_with('.') && !option.help.is_empty(), "{option:?}");
        }
        for command in COMMANDS {
            assert!(!command.about.ends_with('.') && !command.about.is_empty(), "{command:?}");
            assert!(command.description.lines().all(|line| line.len() <= 80), "{}", command.name);
        }
    }
}
