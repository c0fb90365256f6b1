//! Completions for bash, zsh and fish: clap's, extended by the names of existing containers and images.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use dayfly_cli::NAME;
use dayfly_cli::definition::{ALIASES, Alias};

use crate::command::{CONTAINER, IMAGE};

const BASH: &str = include_str!("completions/names.bash");
const ZSH: &str = include_str!("completions/names.zsh");
const FISH: &str = include_str!("completions/names.fish");

/// The properties of a command that bash and fish need in addition to clap's completions, which know no names of
/// arguments there.
struct Known {
    /// The command's words without the program; empty for the program itself.
    words: String,
    /// The arguments: `words` of a subcommand; a `container` or an `image` and then others; `images`; `other`.
    takes: &'static str,
    /// Options with a value.
    valued: String,
}

/// Writes one file per shell, with the name that the shell expects.
pub fn write(program: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let program = &with_aliases(program);
    let known = known(program);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = clap_complete::generate_to(shell, &mut program.clone(), NAME, directory)?;
        let text = fs::read_to_string(&path)?;
        let text = match shell {
            Shell::Bash => bash(text, &known),
            // The functions come before the call at the end.
            Shell::Zsh => text
                .replace(":_hosts'", ":_dayfly_containers'")
                .replace(":_users'", ":_dayfly_images'")
                .replacen('\n', ZSH, 1),
            _ => fish(&text, &known),
        };
        fs::write(path, text)?;
    }
    Ok(())
}

/// Returns the program with a command for each alias of two words, such as `images`.
fn with_aliases(program: &Command) -> Command {
    let below = |alias: &Alias| {
        let [first, second, ..] = alias.words else { return None };
        let found = program.find_subcommand(first)?.find_subcommand(second)?;
        Some(found.clone().name(alias.name).alias(None).visible_alias(None))
    };
    program.clone().subcommands(ALIASES.iter().filter_map(below))
}

/// Returns all commands, under each of their names.
fn known(program: &Command) -> Vec<Known> {
    let mut program = program.clone();
    program.build();
    let mut all = Vec::new();
    collect(&program, "", &mut all);
    all
}

fn collect(command: &Command, words: &str, all: &mut Vec<Known>) {
    let options = command.get_opts().flat_map(|option| {
        let long = option.get_long().map(|long| format!("--{long}"));
        long.into_iter().chain(option.get_short().map(|short| format!("-{short}")))
    });
    let valued = options.collect::<Vec<_>>().join(" ");
    all.push(Known { words: words.to_owned(), takes: takes(command), valued });
    for below in command.get_subcommands() {
        for name in std::iter::once(below.get_name()).chain(below.get_all_aliases()) {
            collect(below, format!("{words} {name}").trim_start(), all);
        }
    }
}

fn takes(command: &Command) -> &'static str {
    match command.get_positionals().next() {
        _ if command.has_subcommands() => "words",
        Some(first) if first.get_value_hint() == CONTAINER => "container",
        Some(first) if first.get_value_hint() == IMAGE => {
            match first.get_num_args().is_some_and(|count| count.max_values() > 1) {
                true => "images",
                false => "image",
            }
        }
        _ => "other",
    }
}

/// Adds a function with the commands' arguments, and a registration that replaces clap's.
fn bash(mut text: String, known: &[Known]) -> String {
    text.push_str("\n# What the words of a command are, then its options that have a value.\n");
    text.push_str("_dayfly_takes() {\n    case $1 in\n");
    for Known { words, takes, valued } in known {
        let _ = writeln!(text, "        '{words}') echo '{takes} {valued}' ;;");
    }
    text.push_str("        *) echo 'other ' ;;\n    esac\n}\n");
    text + BASH
}

/// Adds lines for arguments, which clap does not complete in fish.
fn fish(text: &str, known: &[Known]) -> String {
    // clap writes one backslash too many before quotes in descriptions of values, which fish rejects.
    let text =
        text.replace(r#"\\""#, r#"\""#).replace("(__fish_complete_users)", "(__dayfly_images)");
    let mut text = text + FISH;
    let globals = known.first().map_or("", |program| &program.valued);
    for Known { words, takes, valued } in known {
        let (several, names) = match *takes {
            "container" => (0, "containers"),
            "image" => (0, "images"),
            "images" => (1, "images"),
            _ => continue,
        };
        let _ = writeln!(
            text,
            "complete -c {NAME} -n \"__dayfly_awaits '{words}' {several} {globals} {valued}\" -f -a \"(__dayfly_{names})\"",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_where_there_are_some() {
        let known = known(&with_aliases(&crate::command::program()));
        let found = |words: &str| known.iter().find(|known| known.words == words).unwrap();
        for (words, expected) in [
            ("", "words"),
            ("image", "words"),
            ("kill", "container"),
            ("rm", "container"),
            ("exec", "container"),
            ("create", "other"),
            ("run", "other"),
            ("image inspect", "image"),
            ("image rm", "images"),
            ("image rmi", "images"),
            ("rmi", "images"),
            ("images", "other"),
            ("image export", "image"),
            ("image import", "other"),
        ] {
            assert_eq!(found(words).takes, expected, "{words}");
        }
        assert!(found("run").valued.contains("--image "));
    }
}
