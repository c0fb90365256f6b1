//! Messages for command lines that are not understood: runc's, with advice where there is any.
//!
//! A word is taken for a misspelt one only if what it is taken for ends, changes, overwrites and removes nothing: who
//! follows the advice without reading it must not lose anything.

use alloc::format;
use alloc::string::String;
use core::fmt::Display;

use spec::word;

use crate::NAME;
use crate::definition::engines::{COMMANDS as OF_ENGINES, OPTIONS};
use crate::definition::{ALIASES, Alias, COMMANDS, Command, GLOBALS, Options, find};
use crate::failure::Failure;
use crate::help::{PROGRAM, usage};
use crate::usage::UsageError;

/// Returns the failure for a command of engines below `image` that dayfly does not have, such as `image push`.
pub(crate) fn unknown_below_image(words: &[&str]) -> Option<Failure> {
    match words {
        [
            "image",
            name @ ("build" | "push" | "search" | "untag" | "trust" | "diff" | "mount"),
            ..,
        ] => Some(unknown(name)),
        _ => None,
    }
}

/// Returns the failure for a word that is no command.
pub(crate) fn unknown(name: &str) -> Failure {
    let of_engines = OF_ENGINES.iter().find(|(names, _)| names.contains(&name));
    let advice = match of_engines {
        Some((_, advice)) => format!("; {advice}"),
        None => word::nearest(name, guesses())
            .map_or_else(String::new, |meant| format!("; did you mean {meant}?")),
    };
    Failure::usage(
        format_args!("there is no command {name:?}{advice}"),
        format_args!("Usage: {PROGRAM}"),
    )
}

/// Returns the names that a misspelt command may have meant.
fn guesses() -> impl Iterator<Item = &'static str> {
    let is_guessed = |alias: &&Alias| match alias.words {
        ["image", word, ..] => ["ls", "pull", "history"].contains(word),
        [word, ..] => find(word).is_none_or(|command| command.is_guessed),
        [] => false,
    };
    let aliases = ALIASES.iter().filter(is_guessed);
    let commands = COMMANDS.iter().filter(|command| command.is_guessed);
    commands.map(|command| command.name).chain(aliases.map(|alias| alias.name))
}

/// Returns whether an option of this name is among `options`.
pub(crate) fn has(options: Options, name: &str) -> bool {
    options.iter().copied().flatten().any(|option| option.long == name)
}

/// Returns the failure for an invalid command line. It has runc's message and, where possible,
/// advice: the option that was probably meant, where a global option belongs, or what to use in
/// place of an engine's option.
pub(crate) fn incorrect(
    error: &UsageError<'_>,
    command: Option<&str>,
    options: Options,
    usage: &dyn Display,
) -> Failure {
    let UsageError::Undefined(name) = error else { return Failure::usage(error, usage) };
    // The value may be attached, as in -p80:80.
    let is_attached = name.get(1..).is_some_and(|value| !value.starts_with(char::is_alphabetic));
    let letter = name.get(..1).filter(|_| is_attached).unwrap_or_default();
    let of_engines = |name: &str| {
        let mut all = OPTIONS.iter();
        all.find(|(of, names, _)| Some(*of) == command && names.contains(&name))
    };
    let found = of_engines(name).or_else(|| of_engines(letter));
    let all = options.iter().copied().flatten();
    let shown = all.filter(|option| !option.hidden && !option.destroys).map(|option| option.long);
    let advice = match found {
        Some((_, _, advice)) => (*advice).into(),
        None if command.is_some() && has(GLOBALS, name) => {
            format!("--{name} comes before the command")
        }
        None => match word::nearest(name, shown) {
            Some(meant) => format!("did you mean --{meant}?"),
            None => return Failure::usage(error, usage),
        },
    };
    Failure::usage(format_args!("{error}; {advice}"), usage)
}

/// Returns the failure for a wrong number of arguments. If the command line looks like an engine's
/// `run IMAGE COMMAND`, the message mentions `run --image IMAGE COMMAND`.
pub(crate) fn miscounted(
    error: &UsageError<'_>,
    command: &'static Command,
    arguments: &[&str],
) -> Failure {
    let advice = match arguments {
        [image, _, ..] if command.name == "run" => {
            format!("; did you mean {NAME} run --image {image}?")
        }
        _ => String::new(),
    };
    Failure::usage(format_args!("{NAME}: {error}{advice}"), usage(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::options::{self, OF_STARTS};

    #[test]
    fn no_guess_destroys() {
        let names: Vec<&str> = guesses().collect();
        for name in ["delete", "rm", "kill", "stop", "update", "gc", "cache", "restore", "spec"] {
            assert!(!names.contains(&name), "{name}");
        }
        for (word, meant) in
            [("rnu", Some("run")), ("lits", Some("list")), ("evnets", Some("events"))]
        {
            assert_eq!(word::nearest(word, guesses()), meant, "{word}");
        }
        for word in ["delet", "kil", "stopp", "rmm", "updaet", "rmi", "spce", "resoter", "pauze"] {
            assert_eq!(word::nearest(word, guesses()), None, "{word}");
        }
    }

    /// Every option that names a file either says that it destroys the file, or is known to read it.
    #[test]
    fn options_that_write_files() {
        const READ: [&str; 8] = [
            "config",
            "layers",
            "rootfs-mounts",
            "process",
            "resources",
            "env-file",
            "parent-path",
            "label-file",
        ];
        let all = COMMANDS.iter().map(|command| command.options).chain([GLOBALS]).flatten();
        for option in all.copied().flatten().filter(|option| option.value == "FILE") {
            assert_ne!(option.destroys, READ.contains(&option.long), "--{}", option.long);
        }
        assert!(options::FORCE.destroys && OF_STARTS.iter().all(|option| !option.destroys));
    }

    #[test]
    fn names_of_engines_are_not_dayflys() {
        for name in OF_ENGINES.iter().flat_map(|(names, _)| *names) {
            assert!(
                find(name).is_none() && ALIASES.iter().all(|alias| alias.name != *name),
                "{name}"
            );
        }
        for (command, names, _) in OPTIONS {
            let command = find(command).unwrap();
            let mut all = command.options.iter().copied().flatten();
            let known = all.find(|option| names.iter().any(|name| option.is_named(name)));
            assert_eq!(known, None, "{}", command.name);
        }
    }
}
