//! Help texts, generated from the definitions.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use core::iter;

use crate::NAME;
use crate::definition::options::HELP;
use crate::definition::{ABOUT, ALIASES, Command, DESCRIPTION, GLOBALS, GROUPS, find};
use crate::option::Opt;

/// The usage of the program.
pub const PROGRAM: &str = "dayfly [global options] command [command options] [arguments...]";

/// Returns the usage of a command, in one line.
pub fn usage(command: &Command) -> String {
    format!("Usage: {} ({NAME} {} --help)", command.calls().join(", or "), command.name)
}

/// Returns the help of the program.
pub fn of_program() -> String {
    let mut text = format!("NAME:\n   {NAME} - {ABOUT}\n\n{DESCRIPTION}\n\n");
    let _ = write!(text, "USAGE:\n   {PROGRAM}\n");
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{title}:\n");
        for command in names.iter().filter_map(|name| find(name)) {
            let _ = writeln!(text, "   {:<11} {}", command.name, command.about);
        }
    }
    text.push_str("\nALIASES:\n");
    for alias in ALIASES.iter().filter(|alias| alias.words != [alias.name]) {
        let _ = writeln!(text, "   {:<11} {}", alias.name, alias.words.join(" "));
    }
    text.push_str("\nGLOBAL OPTIONS:\n");
    write_options(&mut text, GLOBALS.concat());
    write_options(&mut text, [&HELP]);
    text
}

/// Returns the help of a command.
pub fn of_command(command: &Command) -> String {
    let Command { name, about, description, .. } = command;
    let calls = command.calls().join("\n   ");
    let mut text = format!("NAME:\n   {NAME} {name} - {about}\n\nUSAGE:\n   {calls}\n");
    if !description.is_empty() {
        let _ = write!(text, "\n{description}\n");
    }
    let headings = command.headings.iter().chain(iter::repeat(&""));
    text.push_str("\nOPTIONS:\n");
    let mut help = Some(&HELP);
    for (heading, options) in headings.zip(command.options) {
        if !["", "OPTIONS"].contains(heading) {
            write_options(&mut text, help.take());
            let _ = write!(text, "\n{heading}:\n");
        }
        write_options(&mut text, options.to_vec());
    }
    write_options(&mut text, help);
    if !command.examples.is_empty() {
        text.push_str("\nEXAMPLES:\n");
    }
    for (line, does) in command.examples {
        let _ = writeln!(text, "   # {NAME} {line}\n      {does}");
    }
    text
}

/// Writes the names and values of options, `--name VALUE, -n VALUE`, with their descriptions.
fn write_options(text: &mut String, options: impl IntoIterator<Item = &'static Opt>) {
    for option in options.into_iter().filter(|option| !option.hidden) {
        let space = if option.value.is_empty() { "" } else { " " };
        let _ = write!(text, "   --{}{space}{}", option.long, option.value);
        if let Some(short) = option.short {
            let _ = write!(text, ", -{short}{space}{}", option.value);
        }
        let _ = writeln!(text, "\n      {}", option.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::COMMANDS;

    #[test]
    fn command_help() {
        assert_eq!(
            of_command(find("list").unwrap()),
            "NAME:\n   dayfly list - list the containers of a state directory\n\n\
             USAGE:\n   dayfly list [options]\n\n\
             On a terminal, the table has columns that fit into a line: image and command,\n\
             but not the bundle. With --no-trunc, or if the output is not a terminal, the\n\
             table has the columns of runc.\n\n\
             OPTIONS:\n   --format FORMAT, -f FORMAT\n      table (default) or json\n   \
             --quiet, -q\n      print container ids only\n   \
             --no-trunc\n      print all columns in full, regardless of the terminal's width\n   \
             --help, -h\n      show help\n\n\
             EXAMPLES:\n   # dayfly list --format json\n      list containers as JSON\n"
        );
        let exec = of_command(find("exec").unwrap());
        assert!(exec.contains("dayfly exec [options] CONTAINER [COMMAND] [ARG...]\n"));
        let run = of_command(find("run").unwrap());
        let forms = "USAGE:\n   dayfly run [options] --image REF [COMMAND] [ARG...]\n   \
                     dayfly run [options] CONTAINER\n   \
                     dayfly run [options] --template NAME [ARG...]\n\n";
        assert!(run.contains(forms), "{run}");
        let events = of_command(find("events").unwrap());
        assert!(events.contains("CONTAINER\n   dayfly events [options] --all\n"), "{events}");
        assert!(!of_command(find("kill").unwrap()).contains("--all"));
    }

    #[test]
    fn what_is_typed_most_comes_first() {
        for (name, order) in [
            (
                "run",
                &["OPTIONS:", "--image", "--volume", "--help", "LIMITS", "--console-socket"][..],
            ),
            ("exec", &["OPTIONS:", "--env", "--user", "--help", "RIGHTS", "--pidfd-socket"]),
            ("create", &["OPTIONS:", "--bundle", "--help", "ROOT FILESYSTEM:", "--no-pivot"]),
            ("update", &["OPTIONS:", "--memory BYTES", "--help", "--cpu-rt-period"]),
        ] {
            let help = of_command(find(name).unwrap());
            let (_, mut rest) = help.split_once("\nUSAGE:").unwrap();
            for word in order {
                let found = rest
                    .split_once(&format!("\n{word}"))
                    .or(rest.split_once(&format!("\n   {word}")));
                rest = found.unwrap_or_else(|| panic!("{name} has no {word} in {rest}")).1;
            }
        }
    }

    #[test]
    fn program_help_names_every_command() {
        let help = of_program();
        assert!(COMMANDS.iter().all(|command| help.contains(&format!("\n   {} ", command.name))));
    }
}
