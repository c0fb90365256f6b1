//! Command lines of the tools. For an invalid command line, a tool prints two lines and exits with status 1, as the
//! runtime does.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, Parser};
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// The exit status for an invalid command line. runc exits with this status for every error.
const REFUSED: i32 = 1;

/// Parses the command line of the process. Prints the help and exits if the command line asks for it; prints an error
/// and exits if the command line is invalid.
#[must_use]
pub fn arguments<P: Parser>() -> P {
    read(P::command())
}

/// Parses the command line of the process. Help and errors show the given program name.
#[must_use]
pub fn arguments_as<P: Parser>(name: &str) -> P {
    read(P::command().bin_name(name))
}

/// The version of the tools.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Adds `--version` to the tool, and to those of its commands that are themselves commands of dayfly.
fn versioned(command: Command) -> Command {
    let names: Vec<String> = match command.get_bin_name() {
        Some("dayfly") => command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect(),
        _ => Vec::new(),
    };
    let command = command.version(VERSION);
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| command.version(VERSION))
    })
}

/// Returns the text that `--version` prints. It is like the first line of `dayfly --version`, but has the name of the
/// tool's program.
fn version(command: &Command) -> String {
    format!("{} version {VERSION}\n", command.get_name())
}

fn read<P: Parser>(command: Command) -> P {
    let mut command = versioned(command);
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matches.and_then(|matches| P::from_arg_matches(&matches));
    parsed.map_err(|error| error.format(&mut command)).unwrap_or_else(|error| {
        let status = match error.kind() {
            ErrorKind::DisplayVersion => {
                let _ = std::io::stdout().write_all(version(&command).as_bytes());
                0
            }
            // Help goes to standard output.
            ErrorKind::DisplayHelp => {
                let _ = error.print();
                0
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                REFUSED
            }
            _ => {
                let _ = std::io::stderr().write_all(refusal(&error).as_bytes());
                REFUSED
            }
        };
        std::process::exit(status)
    })
}

/// Prints an error, and returns the exit code for a failure.
pub fn fail(error: impl Display) -> ExitCode {
    // If writing to stderr fails too, the error is visible only in the exit status.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::FAILURE
}

/// Returns the message for an invalid command line: the error, and the first line of the usage.
fn refusal(error: &Error) -> String {
    let rendered = error.to_string();
    let mut lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let message: Vec<&str> = lines
        .by_ref()
        .take_while(|line| !line.starts_with("tip: ") && !line.starts_with("Usage: "))
        .take_while(|line| !line.starts_with("For more information"))
        .collect();
    let usage = rendered.lines().find(|line| line.starts_with("Usage: "));
    // For a word that is not an integer, the standard library reports "invalid digit found in string".
    let mut text =
        message.join(" ").replace("invalid digit found in string", "must be a whole number");
    if let Some(word) = suggestion(error) {
        text = format!("{text}; did you mean {word}?");
    }
    text.push('\n');
    if let Some(usage) = usage {
        text.push_str(usage);
        text.push('\n');
    }
    text
}

/// Words of the tools' command lines that end, change, overwrite or remove something. A misspelt word is not taken for one
/// of them.
const DESTROYING: &str = "rm rmi remove gc prune clear umount set create move classify kill freeze thaw pin unpin swap \
    move-memory apply persist unpersist pool unshare on off favordynmods limit record snapshot \
    export save tag --force --output --svg --csv";

/// Returns the valid word that is most similar to the invalid one, unless it destroys something.
fn suggestion(error: &Error) -> Option<&str> {
    let kinds =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let similar = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.as_str()),
        // The last suggestion is the most similar one.
        ContextValue::Strings(words) => words.last().map(String::as_str),
        _ => None,
    });
    similar.filter(|word| DESTROYING.split(' ').all(|other| other != *word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    fn refused(args: &[&str]) -> String {
        let format = Arg::new("format").long("format").value_parser(["json", "table"]);
        let list = Command::new("list").arg(format).arg(Arg::new("group").required(true));
        let command = Command::new("tool").bin_name("dayfly tool").subcommand(list);
        refusal(&command.try_get_matches_from(args).unwrap_err())
    }

    #[test]
    fn no_guess_destroys() {
        let tool = Command::new("tool").subcommands(["rm", "ls"].map(Command::new));
        let refused =
            |word| refusal(&tool.clone().try_get_matches_from(["tool", word]).unwrap_err());
        assert!(!refused("rmm").contains("did you mean"), "{}", refused("rmm"));
        assert!(refused("lss").contains("did you mean ls?"), "{}", refused("lss"));
    }

    #[test]
    fn versions() {
        let list = Command::new("list").subcommand(Command::new("all"));
        let tool = Command::new("dayfly-tool").subcommand(list);
        let mut whole = versioned(tool.clone().bin_name("dayfly"));
        assert_eq!(
            version(&whole),
            concat!("dayfly-tool version ", env!("CARGO_PKG_VERSION"), "\n")
        );
        let mut own = versioned(tool.bin_name("dayfly tool"));
        let kind = |command: &mut Command, words: &[&str]| {
            command.try_get_matches_from_mut(words).expect_err("no command").kind()
        };
        for words in [&["tool", "--version"][..], &["tool", "list", "--version"]] {
            assert_eq!(kind(&mut whole, words), ErrorKind::DisplayVersion, "{words:?}");
        }
        assert_eq!(kind(&mut own, &["tool", "--version"]), ErrorKind::DisplayVersion);
        for command in [&mut whole, &mut own] {
            let words = ["tool", "list", "all", "--version"];
            assert_eq!(kind(command, &words), ErrorKind::UnknownArgument);
        }
    }

    #[test]
    fn two_lines() {
        for (args, text) in [
            (
                &["tool", "list", "a", "--format=jsn"][..],
                "error: invalid value 'jsn' for '--format <format>' [possible values: json, table]; \
                 did you mean json?\n",
            ),
            (
                &["tool", "list"],
                "error: the following required arguments were not provided: <group>\n\
                 Usage: dayfly tool list <group>\n",
            ),
        ] {
            assert_eq!(refused(args), text, "{args:?}");
        }
    }
}
