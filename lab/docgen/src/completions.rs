//! Completions for bash, zsh and fish: clap's, extended by the names of existing containers and images.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use dayfly_cli::NAME;

use crate::command;

const BASH: &str = include_str!("completions/names.bash");
const ZSH: &str = include_str!("completions/names.zsh");
const FISH: &str = include_str!("completions/names.fish");

/// Commands whose argument names a container that does not exist yet.
const MAKERS: [&str; 3] = ["create", "restore", "run"];

/// The arguments of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// The name of a subcommand.
    Words,
    /// An existing container, then other arguments.
    Container,
    /// An existing image, then other arguments.
    Image,
    /// Existing images.
    Images,
    /// Other arguments.
    Other,
}

impl Takes {
    fn word(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Container => "container",
            Self::Image => "image",
            Self::Images => "images",
            Self::Other => "other",
        }
    }

    fn of(command: &Command) -> Self {
        let makes = MAKERS.contains(&command.get_name());
        let first = command.get_positionals().next();
        let name =
            first.and_then(|first| first.get_value_names()?.first()).map(|name| name.as_str());
        match name {
            _ if command.has_subcommands() => Self::Words,
            Some("CONTAINER") if !makes => Self::Container,
            Some("IMAGE") => match first.and_then(|first| first.get_num_args()) {
                Some(count) if count.max_values() > 1 => Self::Images,
                _ => Self::Image,
            },
            _ => Self::Other,
        }
    }
}

/// The properties of a command that the shells need in addition to clap's completions.
struct Known {
    /// The command's words without the program; empty for the program itself.
    words: String,
    takes: Takes,
    /// Options with a value.
    valued: Vec<String>,
}

/// Writes one file per shell, with the name that the shell expects.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let known = known();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = clap_complete::generate_to(shell, &mut command::with_tools(), NAME, directory)?;
        let text = fs::read_to_string(&path)?;
        let text = match shell {
            Shell::Bash => bash(&text, &known),
            Shell::Zsh => zsh(&text),
            _ => fish(&text, &known),
        };
        let missing = || io::Error::other(format!("{shell}: clap's text is not what it was"));
        fs::write(path, text.ok_or_else(missing)?)?;
    }
    Ok(())
}

/// Returns all commands, under each of their names.
fn known() -> Vec<Known> {
    let mut all = Vec::new();
    let mut whole = command::with_tools();
    whole.build();
    collect(&whole, "", &mut all);
    all
}

fn collect(command: &Command, words: &str, all: &mut Vec<Known>) {
    let options = command.get_opts().filter(|option| option.get_action().takes_values());
    let valued = options.flat_map(|option| {
        let long = option.get_long().into_iter().map(|long| format!("--{long}"));
        long.chain(option.get_short().map(|short| format!("-{short}"))).collect::<Vec<_>>()
    });
    all.push(Known {
        words: words.to_owned(),
        takes: Takes::of(command),
        valued: valued.collect(),
    });
    for below in command.get_subcommands() {
        let names = std::iter::once(below.get_name()).chain(below.get_all_aliases());
        for name in names {
            collect(below, format!("{words} {name}").trim_start(), all);
        }
    }
}

/// Adds a function with the commands' arguments, and replaces clap's registration.
fn bash(text: &str, known: &[Known]) -> Option<String> {
    let (before, _) = text.split_once("\nif [[ \"${BASH_VERSINFO[0]}\" -eq 4")?;
    let mut text = before.to_owned();
    text.push_str("\n# What the words of a command are, then its options that have a value.\n");
    text.push_str("_dayfly_takes() {\n    case $1 in\n");
    for Known { words, takes, valued } in known {
        let _ =
            writeln!(text, "        '{words}') echo '{} {}' ;;", takes.word(), valued.join(" "));
    }
    text.push_str("        *) echo 'other ' ;;\n    esac\n}\n");
    Some(text + BASH)
}

/// Replaces clap's completion of container and image arguments with functions that complete existing names.
fn zsh(text: &str) -> Option<String> {
    const END: &str = "\nif [ \"$funcstack[1]\" = \"_dayfly\" ]; then";
    let (before, after) = text.split_once(END)?;
    let (mut lines, mut command, mut done) = (String::new(), "", 0);
    for line in before.lines() {
        let name = line.trim_start().strip_prefix('(').and_then(|line| line.strip_suffix(')'));
        command = name.unwrap_or(command);
        let is_image = [":image -- ", "*::images -- "].iter().any(|text| line.contains(text));
        let line = match line {
            "':CONTAINER:' \\" if !MAKERS.contains(&command) => {
                "':CONTAINER:_dayfly_containers' \\".to_owned()
            }
            line if line.starts_with("'--image=[") => {
                line.replace(":REF:'", ":REF:_dayfly_images'")
            }
            line if is_image => line.replace(":_default'", ":_dayfly_images'"),
            line => line.to_owned(),
        };
        done +=
            usize::from(line.contains("_dayfly_containers'") || line.contains("_dayfly_images'"));
        lines.push_str(&line);
        lines.push('\n');
    }
    (done > 10).then(|| format!("{lines}{ZSH}{END}{after}"))
}

/// Adds lines to the completions of clap.
fn fish(text: &str, known: &[Known]) -> Option<String> {
    // clap writes one backslash too many before quotes in descriptions of values, which fish rejects.
    let mut text = text.replace(r#"\\""#, r#"\""#) + FISH;
    let globals = known.first()?.valued.join(" ");
    for Known { words, takes, valued } in known {
        let (several, names) = match takes {
            Takes::Container => (0, "containers"),
            Takes::Image => (0, "images"),
            Takes::Images => (1, "images"),
            Takes::Words | Takes::Other => continue,
        };
        let _ = writeln!(
            text,
            "complete -c {NAME} -n \"__dayfly_awaits '{words}' {several} {globals} {}\" -f -a \"(__dayfly_{names})\"",
            valued.join(" ")
        );
    }
    let _ = writeln!(
        text,
        "complete -c {NAME} -n \"__fish_dayfly_using_subcommand run\" -l image -r -f -a \"(__dayfly_images)\""
    );
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_where_there_are_some() {
        let known = known();
        let takes = |words: &str| known.iter().find(|known| known.words == words).unwrap().takes;
        for (words, expected) in [
            ("", Takes::Words),
            ("image", Takes::Words),
            ("kill", Takes::Container),
            ("rm", Takes::Container),
            ("exec", Takes::Container),
            ("create", Takes::Other),
            ("run", Takes::Other),
            ("image inspect", Takes::Image),
            ("image rm", Takes::Images),
            ("image rmi", Takes::Images),
            ("image export", Takes::Image),
            ("image import", Takes::Other),
        ] {
            assert_eq!(takes(words), expected, "{words}");
        }
        let run = known.iter().find(|known| known.words == "run").unwrap();
        assert!(run.valued.iter().any(|option| option == "--image"));
    }
}
